//! `fit`: a twin from the command line, its file, page and JSON, a fit of a stored run, and refusals.

use crate::common::{Bench, iodyno};
