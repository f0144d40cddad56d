//! A real Linux kernel as the client of `iodyno serve`: its block layer, md, ext4, and SQLite on top.
//!
//! The kernel runs in QEMU without hardware virtualization, from a state that `make-guest` keeps after it has
//! booted, so that a guest starts within a second and can be killed as often as power is cut. Its disks use
//! QEMU's NBD client; only `purge` and `passthrough` boot their own guest, with NVMe and SATA devices. The tests
//! do not assert speed: this transport alone takes 200 to 1000 µs per I/O.
//!
//! | module | contents |
//! |---|---|
//! | `served`, `machine` | the server, the guest |
//! | `raid` | four modules as one RAID 0; whether times keep their ratio when they are dilated |
//! | `md_layouts` | arrays that md wrote, read back from their members by `iodyno-raid` |
//! | `crash` | states of `crashtest` that are disks of a guest |
//! | `power` | committed transactions of a database after a power cut |
//! | `passthrough` | NVMe commands past the block layer, their effect and their refusals |
//! | `purge` | purges of NVMe and SATA devices, sound and defective ones |
//! | `traps` | stacks of device mapper, md and RAM disks in which memory serves the I/O of a disk |
//! | `ublk` | `serve --ublk`, in the guest itself: its kernel's block devices (feature `ublk`) |
//!
//! All are ignored by default; `./test` runs them where QEMU and Debian's packages are available.
//! More cuts, at other times (the last such run is in `bench/runs/2026-11-21-power-cuts`):
//!
//! ```sh
//! IODYNO_CUTS=40 IODYNO_SEED=7 cargo test -p iodyno --test guest -- --ignored --nocapture --test-threads 2 power
//! ```

mod machine;
mod served;

/// All tests that run a guest. `./test` runs them separately.
mod in_a_guest {
    mod crash;
    mod md_layouts;
    mod passthrough;
    mod power;
    mod purge;
    mod raid;
    mod traps;
    #[cfg(feature = "ublk")]
    mod ublk;
}
