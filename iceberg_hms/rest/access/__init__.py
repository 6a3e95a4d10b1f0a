"""Who calls, what they may do, and the trail that they leave.

scopes            what a caller may do: read, write or admin, for each pattern of namespaces
authorization     the port `Access`, and the actions that endpoints declare
tokens, oidc      its drivers: bearer tokens of a file; JSON Web Tokens of an issuer
audit             a line for each change and each refusal
protected         properties that need more than the right to commit
"""
