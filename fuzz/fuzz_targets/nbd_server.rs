//! Bytes of a client, for the server's state machines.
#![cfg_attr(fuzzing, no_main)]
iodyno_fuzz::target!(iodyno_fuzz::nbd::server, "nbd_server");
