//! Moves packets for `scripts/instructions` to count instructions of: see `bench::guard`.
//!
//! `instructions --list` prints the cases; `instructions CASE` runs one and prints how many packets
//! count. The crypto library is ipsec-mb where it is there, else OpenSSL.

use std::error::Error;

use crypto::Provider;
use engine_openssl::OpensslProvider;
use ipsec_mb::IpsecMbProvider;

fn main() -> Result<(), Box<dyn Error>> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "--list".to_owned());
    if argument == "--list" {
        for case in bench::guard::CASES {
            println!("{}", case.name);
        }
        return Ok(());
    }
    let provider: Box<dyn Provider> = match IpsecMbProvider::new() {
        Ok(provider) => Box::new(provider),
        Err(_) => Box::new(OpensslProvider::new()?),
    };
    println!("{}", bench::guard::run(&*provider, &argument)?);
    Ok(())
}
