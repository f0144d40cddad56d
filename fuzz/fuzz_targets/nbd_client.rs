//! Bytes of a server, for the client's state machines.
#![cfg_attr(fuzzing, no_main)]
iodyno_fuzz::target!(iodyno_fuzz::nbd::client, "nbd_client");
