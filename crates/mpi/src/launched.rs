//! Determines from environment variables how many processes the launcher, such as `mpirun`, has started.

/// Environment variables in which launchers give the number of processes, in order of precedence. Open
/// MPI's precedes Slurm's, because Slurm may have started `mpirun` with one process per host. MPICH, Intel MPI
/// and `srun --mpi=pmi2` set `PMI_SIZE`.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];
/// Variables set by launchers that give the number of processes only to the MPI library.
const OTHERS: [&str; 3] = ["PMIX_RANK", "PMI_RANK", "PMI_FD"];

/// Number of processes according to the launcher; 1 without a launcher, `None` if only the MPI library knows.
pub(crate) fn size() -> Option<u32> {
    size_by(|name| std::env::var(name).ok())
}

fn size_by(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let of = |name: &&str| variable(name)?.trim().parse().ok().filter(|size| *size > 0);
    let is_launched = || SIZES.iter().chain(&OTHERS).any(|name| variable(name).is_some());
    SIZES.iter().find_map(of).or_else(|| (!is_launched()).then_some(1))
}

#[cfg(test)]
mod tests {
    use super::size_by;

    #[test]
    fn each_launcher_is_known_by_what_it_leaves() {
        let of = |set: &[(&str, &str)]| {
            size_by(|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(of(&[]), Some(1), "no launcher");
        // A Slurm job that starts the program without srun.
        assert_eq!(of(&[("SLURM_NTASKS", "64"), ("SLURM_JOB_ID", "7")]), Some(1));
        assert_eq!(of(&[("SLURM_STEP_NUM_TASKS", "64"), ("SLURM_PROCID", "3")]), Some(64));
        // mpirun, whose daemons Slurm started on 8 hosts.
        let both = [("SLURM_STEP_NUM_TASKS", "8"), ("OMPI_COMM_WORLD_SIZE", "64")];
        assert_eq!(of(&both), Some(64));
        assert_eq!(of(&[("PMI_SIZE", "4"), ("PMI_RANK", "0")]), Some(4));
        assert_eq!(of(&[("PMIX_RANK", "0")]), None, "only MPI knows");
        assert_eq!(of(&[("OMPI_COMM_WORLD_SIZE", "many")]), None);
    }
}
