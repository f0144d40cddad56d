//! Writes the gallery of figures to a folder, for inspection: `gallery FOLDER`. Each figure as a picture of its
//! own, and all of them in a page, light and dark.

use std::path::PathBuf;

use iodyno_page::chart::{Look, style, svg};

#[path = "../tests/gallery/mod.rs"]
mod gallery;

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("gallery: the folder to write to is missing: gallery FOLDER");
        std::process::exit(2);
    };
    std::fs::create_dir_all(&folder)?;
    let mut figures = gallery::figures();
    figures.push(gallery::usual());
    for theme in ["light", "dark"] {
        let mut page = format!(
            "<!doctype html><html data-theme={theme}><meta charset=utf-8><style>{}\
             body{{background:var(--chart-ground);margin:16px}}svg{{display:block;width:840px}}\
             .small svg{{width:420px;display:inline-block}}</style>",
            style()
        );
        for figure in &figures {
            page.push_str(&svg(figure, Look::Embedded));
        }
        page.push_str("<div class=small>");
        for figure in &figures {
            let mut figure = figure.clone();
            figure.id.push_str("-small");
            page.push_str(&svg(&figure, Look::Small));
        }
        page.push_str("</div>");
        std::fs::write(folder.join(format!("{theme}.html")), page)?;
    }
    for figure in &figures {
        let picture = svg(figure, Look::Alone);
        std::fs::write(folder.join(format!("{}.svg", figure.id)), picture)?;
        let (embedded, scales) =
            (svg(figure, Look::Embedded), iodyno_page::chart::scales(figure).to_string());
        println!("{:14} {:7} bytes, scales {:7}", figure.id, embedded.len(), scales.len());
    }
    Ok(())
}
