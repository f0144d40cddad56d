//! Bytes of a client, for a running server with a RAM disk.
#![cfg_attr(fuzzing, no_main)]
iodyno_fuzz::target!(iodyno_fuzz::nbd::live, "nbd_server");
