//! Default path of the notebook, in the data folder of the XDG base directory specification.

use crate::Error;
use std::ffi::OsString;
use std::path::PathBuf;

/// Default path of the notebook: `$XDG_DATA_HOME/iodyno/notebook.sqlite`, or `~/.local/share/iodyno/notebook.sqlite` if
/// that variable is not set. A relative path in a variable is ignored, as the XDG specification requires. Fails if
/// neither `XDG_DATA_HOME` nor `HOME` is an absolute path.
pub fn default_path() -> Result<PathBuf, Error> {
    from_variables(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"))
}

fn from_variables(data_home: Option<OsString>, home: Option<OsString>) -> Result<PathBuf, Error> {
    let absolute = |v: Option<OsString>| v.map(PathBuf::from).filter(|p| p.is_absolute());
    let data = absolute(data_home).or_else(|| absolute(home).map(|h| h.join(".local/share")));
    Ok(data.ok_or(Error::NoHome)?.join("iodyno/notebook.sqlite"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_folder_is_preferred_and_relative_paths_are_ignored() {
        let path = |data: Option<&str>, home: Option<&str>| {
            from_variables(data.map(Into::into), home.map(Into::into))
        };
        let (in_data, in_home) =
            ("/data/iodyno/notebook.sqlite", "/home/me/.local/share/iodyno/notebook.sqlite");
        assert_eq!(path(Some("/data"), Some("/home/me")).unwrap(), PathBuf::from(in_data));
        assert_eq!(path(Some(""), Some("/home/me")).unwrap(), PathBuf::from(in_home));
        assert_eq!(path(Some("data"), Some("/home/me")).unwrap(), PathBuf::from(in_home));
        assert!(path(None, None).unwrap_err().to_string().contains("--notebook"));
    }
}
