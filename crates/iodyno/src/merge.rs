//! `merge`: merges the shards of a run.

use crate::args::Cli;
use crate::console::{print, remark};
use crate::failure::Failure;
use crate::show;
use iodyno_notebook::Notebook;
use iodyno_page::terminal::Style;
use iodyno_report::terminal;
use iodyno_run::{Merged, ShardError, Shards};
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) fn command(cli: &Cli, notebooks: &[PathBuf], style: Style) -> Result<ExitCode, Failure> {
    let of_shards = notebooks.iter().map(|path| Notebook::open_existing(path));
    let shards = Shards::find(&of_shards.collect::<Result<Vec<_>, _>>()?)?;
    let mut notebook = Notebook::open(&show::path(cli.notebook.as_deref())?)?;
    let Merged { id, is_new } = shards.put_into(&mut notebook)?;
    if !is_new {
        remark("note", &format!("run {id} exists already: these shards were merged before"));
    }
    print(&terminal::show(&notebook.load(&id)?, terminal::Detail::default(), style))
}

impl From<ShardError> for Failure {
    fn from(e: ShardError) -> Self {
        match e {
            ShardError::Notebook(e) => e.into(),
            ShardError::Wrong(why) => Self::input(why),
        }
    }
}
