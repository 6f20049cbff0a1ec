"""grants.py ID UID ANCHOR NODE GPUS MINUTES EXPIRY: a grant made with the site's key, which only SlurmUser and root read."""
import hashlib
import hmac
import sys

lines = dict(line.strip().split("=", 1) for line in open("/etc/espalier/grant.key"))
text = ":".join(["espalier-grant-1"] + sys.argv[1:])
print(text + ":" + hmac.new(bytes.fromhex(lines["key"]), text.encode(), hashlib.sha256).hexdigest())
