//! `merge`: merges the shards of a run.

use crate::args::Cli;
use crate::console::print;
use crate::failure::Failure;
use crate::show;
use iodyno_notebook::Notebook;
use iodyno_page::terminal::Style;
use iodyno_report::terminal;
use iodyno_run::{ShardError, Shards};
use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) fn command(cli: &Cli, notebooks: &[PathBuf], style: Style) -> Result<ExitCode, Failure> {
    let of_shards = notebooks.iter().map(|path| Notebook::open_existing(path));
    let shards = Shards::find(&of_shards.collect::<Result<Vec<_>, _>>()?)?;
    let notebook = Notebook::open(&show::path(cli.notebook.as_deref())?)?;
    let id = shards.put_into(&notebook)?;
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
