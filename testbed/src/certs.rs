//! A certificate authority for tests, and every shape of certificate and store that brokers and mirrors are given.
//!
//! Made with `openssl` and the JDK's `keytool`, so that what is read is what people's tools write. Stores are
//! protected by [`PASSWORD`].

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::scratch::Scratch;

/// Of every store and every encrypted key.
pub const PASSWORD: &str = "store-password-q7";

/// Days of a certificate that holds for long.
const LONG: &str = "365";

/// The authority, its certificates and stores, in a folder of its own.
#[derive(Debug)]
pub struct Certs {
    scratch: Scratch,
}

impl Certs {
    /// The authority `ca`, and with it `server` for `localhost` and 127.0.0.1.
    pub fn new() -> Result<Self> {
        let certs = Self { scratch: Scratch::new("certs")? };
        certs.authority("ca")?;
        certs.issue("server", "ca", "DNS:localhost,IP:127.0.0.1", LONG)?;
        Ok(certs)
    }

    pub fn dir(&self) -> &Path {
        self.scratch.path()
    }

    /// A file of this folder, as an absolute path.
    pub fn path(&self, name: &str) -> String {
        self.scratch.join(name).display().to_string()
    }

    pub fn text(&self, name: &str) -> Result<String> {
        let path = PathBuf::from(self.path(name));
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// One more authority: `NAME.pem` and its key.
    pub fn authority(&self, name: &str) -> Result<()> {
        self.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.pem \
             -days {LONG} -subj /CN=Test-{name}"
        ))
    }

    /// A certificate by `authority`: `NAME.pem`, `NAME.key`, `NAME.store.pem` with both, and `NAME.pbe.pem` with both
    /// and the key encrypted so that Java reads it.
    pub fn issue(&self, name: &str, authority: &str, names: &str, days: &str) -> Result<()> {
        self.request(name)?;
        let extensions =
            format!("subjectAltName={names}\nextendedKeyUsage=serverAuth,clientAuth\n");
        fs::write(self.path(&format!("{name}.ext")), extensions)?;
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -out {name}.pem \
             -days {days} -extfile {name}.ext"
        ))?;
        self.join(name)
    }

    /// A certificate that ended years ago.
    pub fn issue_expired(&self, name: &str, authority: &str, names: &str) -> Result<()> {
        self.request(name)?;
        fs::create_dir_all(self.path("issued"))?;
        fs::write(self.path("issued/index.txt"), "")?;
        fs::write(self.path("issued/serial"), "01\n")?;
        let config = format!(
            "[ca]\ndefault_ca=d\n[d]\ndir=issued\nnew_certs_dir=issued\ndatabase=issued/index.txt\n\
             serial=issued/serial\ndefault_md=sha256\npolicy=p\nx509_extensions=e\n[p]\ncommonName=supplied\n\
             [e]\nsubjectAltName={names}\n"
        );
        fs::write(self.path("issued/ca.cnf"), config)?;
        // Only `ca` can date a certificate into the past.
        self.openssl(&format!(
            "ca -batch -config issued/ca.cnf -cert {authority}.pem -keyfile {authority}.key -in {name}.csr \
             -out {name}.pem -notext -startdate 20200101000000Z -enddate 20200201000000Z"
        ))?;
        self.join(name)
    }

    fn request(&self, name: &str) -> Result<()> {
        self.openssl(&format!(
            "req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
        ))
    }

    fn join(&self, name: &str) -> Result<()> {
        let both = self.text(&format!("{name}.key"))? + &self.text(&format!("{name}.pem"))?;
        fs::write(self.path(&format!("{name}.store.pem")), both)?;
        self.encrypted(name, "pbe", "-v1 PBE-SHA1-3DES")
    }

    /// `NAME.EXTENSION.pem`, with the key encrypted.
    fn encrypted(&self, name: &str, extension: &str, scheme: &str) -> Result<()> {
        self.openssl(&format!(
            "pkcs8 -topk8 -in {name}.key -out {name}.{extension}.key -passout pass:{PASSWORD} {scheme}"
        ))?;
        let key = self.text(&format!("{name}.{extension}.key"))?;
        let both = key + &self.text(&format!("{name}.pem"))?;
        Ok(fs::write(self.path(&format!("{name}.{extension}.pem")), both)?)
    }

    /// The trust stores of `authority`: `AUTHORITY.p12` and `AUTHORITY.jks`, by keytool.
    pub fn trust_stores(&self, authority: &str) -> Result<()> {
        for (kind, extension) in [("PKCS12", "p12"), ("JKS", "jks")] {
            self.keytool(&format!(
                "-importcert -noprompt -alias ca -file {authority}.pem -keystore {authority}.{extension} \
                 -storetype {kind} -storepass {PASSWORD}"
            ))?;
        }
        Ok(())
    }

    /// The key stores of `name`: PKCS12 by openssl (`.p12`) and by keytool (`.java.p12`), JKS (`.jks`), and PEM with
    /// its key encrypted as openssl does by default (`.pbes2.pem`).
    pub fn key_stores(&self, name: &str) -> Result<()> {
        self.openssl(&format!(
            "pkcs12 -export -in {name}.pem -inkey {name}.key -name {name} -out {name}.p12 -passout pass:{PASSWORD}"
        ))?;
        for (kind, extension) in [("PKCS12", "java.p12"), ("JKS", "jks")] {
            self.keytool(&format!(
                "-importkeystore -noprompt -srckeystore {name}.p12 -srcstoretype PKCS12 -srcstorepass {PASSWORD} \
                 -destkeystore {name}.{extension} -deststoretype {kind} -deststorepass {PASSWORD}"
            ))?;
        }
        self.encrypted(name, "pbes2", "-v2 aes-256-cbc")
    }

    fn openssl(&self, args: &str) -> Result<()> {
        self.run("openssl", args)
    }

    fn keytool(&self, args: &str) -> Result<()> {
        // One second of start-up less, on two cores.
        self.run("keytool", &format!("-J-XX:TieredStopAtLevel=1 {args}"))
    }

    /// Arguments hold no blanks of their own.
    fn run(&self, program: &str, args: &str) -> Result<()> {
        let output = Command::new(program)
            .args(args.split_whitespace())
            .current_dir(self.dir())
            .output()
            .with_context(|| format!("cannot start `{program}`; testbed/setup installs it"))?;
        if !output.status.success() {
            bail!(
                "`{program} {args}` failed:\n{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(())
    }
}
