"""A certificate authority for one test, made with strongSwan's `pki`."""

import subprocess


class Authority:
    """An ECDSA authority; `issue` makes an end-entity certificate whose name is also its SAN."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.ca_key, self.ca_cert = folder / "ca.key.pem", folder / "ca.pem"
        self._write(self.ca_key, "--gen", "--type", "ecdsa", "--size", "256")
        self._write(
            self.ca_cert, "--self", "--ca", "--type", "ecdsa", "--in", self.ca_key,
            "--dn", "O=culvert tests, CN=test authority", "--lifetime", "2",
        )  # fmt: skip

    def issue(self, name):
        """Makes the key and the certificate of `name`."""
        self._write(self.key(name), "--gen", "--type", "ecdsa", "--size", "256")
        self._write(
            self.cert(name), "--issue", "--type", "ecdsa", "--in", self.key(name),
            "--cacert", self.ca_cert, "--cakey", self.ca_key, "--san", name,
            "--dn", f"O=culvert tests, CN={name}", "--lifetime", "1",
        )  # fmt: skip

    def cert(self, name):
        return self.folder / f"{name}.pem"

    def key(self, name):
        return self.folder / f"{name}.key.pem"

    def _write(self, path, *args):
        argv = ["pki", *map(str, args)]
        # `pki --issue` takes the authority's type from its key: --type names the input.
        done = subprocess.run([*argv, "--outform", "pem"], capture_output=True, check=True)
        path.write_bytes(done.stdout)
        path.chmod(0o600)
