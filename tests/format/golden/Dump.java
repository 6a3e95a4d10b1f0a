// Writes the .avro files in this folder with Java Iceberg 1.11.0, for formats 1 to 3: data manifests with an added, an
// existing and a deleted entry, delete manifests, and their lists. In Java's package because ManifestLists is not public.
//   javac -cp iceberg-spark-runtime-4.1_2.13-1.11.0.jar -d out Dump.java
//   java -cp out:iceberg-spark-runtime-4.1_2.13-1.11.0.jar:pyspark/jars/* org.apache.iceberg.Dump <folder>
package org.apache.iceberg;
import java.util.*;
import java.nio.*;
import org.apache.iceberg.types.*;
import org.apache.iceberg.io.*;
import static org.apache.iceberg.types.Types.NestedField.*;
public class Dump {
  public static void main(String[] a) throws Exception {
    String out = a[0];
    Schema s = new Schema(1,
      required(1,"id",Types.LongType.get()), optional(2,"ts",Types.TimestampType.withoutZone()), optional(3,"s",Types.StringType.get(),"doc of s"),
      optional(4,"u",Types.UUIDType.get()), optional(5,"d",Types.DecimalType.of(9,2)), optional(6,"t",Types.TimeType.get()), optional(7,"dt",Types.DateType.get()),
      optional(8,"fx",Types.FixedType.ofLength(3)), optional(9,"b",Types.BinaryType.get()), optional(10,"tz",Types.TimestampType.withZone()), optional(11,"bo",Types.BooleanType.get()),
      optional(12,"f",Types.FloatType.get()), optional(13,"db",Types.DoubleType.get()), optional(14,"od d-name",Types.StringType.get()), optional(15,"i",Types.IntegerType.get()));
    PartitionSpec.Builder b = PartitionSpec.builderFor(s).withSpecId(2).day("ts").hour("tz").year("dt").bucket("id",16).truncate("s",3).identity("s").identity("u").identity("d").identity("t").identity("dt").identity("b").identity("tz").identity("bo").identity("f").identity("db").identity("od d-name").alwaysNull("i");
    PartitionSpec spec = b.build();
    for (int v = 1; v <= 3; v++) {
      List<ManifestFile> mfs = new ArrayList<>();
      ManifestWriter<DataFile> w = ManifestFiles.write(v, spec, at(out, "v"+v+"-data.avro"), 77L);
      PartitionData pd = new PartitionData(spec.partitionType());
      Object[] vals = {18718, 449232, 51, 7, "abc", "abcd", UUID.fromString("f79c3e09-677c-4bbd-a479-3f349cb785e7"), new java.math.BigDecimal("-14.20"), 81068000000L, 17486,
         ByteBuffer.wrap(new byte[]{9,8}), 1510871468000001L, true, 1.5f, -0.0d, "x y", null};
      for (int i=0;i<vals.length;i++) pd.set(i, vals[i]);
      Map<Integer,Long> m = new HashMap<>(); m.put(1,10L); m.put(3,20L);
      Map<Integer,Long> n = new HashMap<>(); n.put(12,1L);
      Map<Integer,ByteBuffer> lo = new HashMap<>(); lo.put(1, Conversions.toByteBuffer(Types.LongType.get(), 5L)); lo.put(5, Conversions.toByteBuffer(Types.DecimalType.of(9,2), new java.math.BigDecimal("-14.20")));
      Metrics mt = new Metrics(100L, m, m, n, n, lo, lo);
      DataFile f = DataFiles.builder(spec).withPath("file:/w/a b/f1.parquet").withFormat(FileFormat.PARQUET).withFileSizeInBytes(1234).withPartition(pd).withMetrics(mt).withSplitOffsets(List.of(4L,500L)).withSortOrder(SortOrder.unsorted()).build();
      DataFile f2 = DataFiles.builder(spec).withPath("file:/w/f2.parquet").withFormat(FileFormat.PARQUET).withFileSizeInBytes(1).withPartition(new PartitionData(spec.partitionType())).withRecordCount(7).build();
      w.add(f);
      w.existing(f2, 66L, 3L, 3L);
      w.delete(f2, 4L, 4L);
      w.close();
      mfs.add(w.toManifestFile());
      System.out.println(mfs.get(0));
      if (v >= 2) {
        ManifestWriter<DeleteFile> d = ManifestFiles.writeDeleteManifest(v, spec, at(out, "v"+v+"-deletes.avro"), 77L);
        FileMetadata.Builder fb = FileMetadata.deleteFileBuilder(spec).withPath("file:/w/d1.parquet").withFormat(FileFormat.PARQUET).withFileSizeInBytes(55).withPartition(pd).withRecordCount(2);
        d.add(fb.ofEqualityDeletes(1,3).withSortOrder(SortOrder.unsorted()).build());
        if (v==3) d.add(FileMetadata.deleteFileBuilder(spec).ofPositionDeletes().withPath("file:/w/dv.puffin").withFormat(FileFormat.PUFFIN).withFileSizeInBytes(55).withPartition(pd).withRecordCount(2).withReferencedDataFile("file:/w/f2.parquet").withContentOffset(4).withContentSizeInBytes(40).build());
        d.close();
        mfs.add(d.toManifestFile());
      }
      ManifestListWriter lw = v==3 ? ManifestLists.write(3, at(out, "v3-list.avro"), PlaintextEncryptionManagerHolder.get(), 77L, 66L, 5L, 1000L)
         : ManifestLists.write(v, at(out, "v"+v+"-list.avro"), PlaintextEncryptionManagerHolder.get(), 77L, v==1 ? null : Long.valueOf(66L), v==1 ? 0L : 5L, null);
      lw.addAll(mfs); lw.close();
      System.out.println(v + " next row id " + lw.nextRowId());
    }
  }
  static OutputFile at(String out, String name) {
    OutputFile f = Files.localOutput(out + "/" + name);
    return new OutputFile() {
      public PositionOutputStream create() { return f.create(); }
      public PositionOutputStream createOrOverwrite() { return f.createOrOverwrite(); }
      public String location() { return "file:/w/metadata/" + name; }
      public InputFile toInputFile() { return f.toInputFile(); }
    };
  }
  static class PlaintextEncryptionManagerHolder { static org.apache.iceberg.encryption.EncryptionManager get() { return org.apache.iceberg.encryption.PlaintextEncryptionManager.instance(); } }
}
