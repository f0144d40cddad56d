//! All tests of this crate that use its public interface, in one program, so that they are linked only once.

mod amps;
mod calypso;
mod conclusions;
mod files;
mod ibm;
mod ibm_findings;
mod lab;
mod lenovo;
mod percona;
mod rounds;
mod scoring;
mod small;
mod terminal;
