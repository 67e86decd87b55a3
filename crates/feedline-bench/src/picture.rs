//! Plots as PNG files, for slides and documents that take no SVG.

use resvg::{
    tiny_skia::{Color, Pixmap, Transform},
    usvg::{Options, Tree, fontdb::Database},
};

use crate::plot::plain;

/// Pixels for each unit of a plot: sharp on dense screens and in print.
const SCALE: f32 = 2.0;

/// Fonts to prefer, if they are there.
const FONTS: [&str; 5] = ["DejaVu Sans", "Noto Sans", "Liberation Sans", "Arial", "Helvetica"];

/// A picture that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// There is nothing to write with.
    #[error(
        "there are no fonts here, so a picture would have no words; install some (fonts-dejavu-core), or take SVG"
    )]
    NoFonts,
    /// The plot.
    #[error("a plot is not understood: {0}")]
    Plot(#[from] resvg::usvg::Error),
    /// The pixels.
    #[error("a plot of {0} × {1} cannot be drawn")]
    Size(f32, f32),
}

/// Draws plots. Fonts are looked for once.
pub struct Painter {
    options: Options<'static>,
}

impl Painter {
    /// With the fonts of this machine.
    pub fn new() -> Result<Self, PictureError> {
        let mut options = Options::default();
        let fonts = options.fontdb_mut();
        fonts.load_system_fonts();
        let family = family(fonts).ok_or(PictureError::NoFonts)?;
        fonts.set_sans_serif_family(family);
        Ok(Self { options })
    }

    /// A plot as a PNG file.
    pub fn png(&self, svg: &str) -> Result<Vec<u8>, PictureError> {
        let tree = Tree::from_str(&plain(svg), &self.options)?;
        let (width, height) = (SCALE * tree.size().width(), SCALE * tree.size().height());
        let size = || PictureError::Size(width, height);
        let mut pixels = Pixmap::new(width as u32, height as u32).ok_or_else(size)?;
        pixels.fill(Color::WHITE);
        resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
        pixels.encode_png().map_err(|_| size())
    }
}

/// A family without serifs, or any.
fn family(fonts: &Database) -> Option<String> {
    let families = || fonts.faces().filter_map(|face| face.families.first().map(|(name, _)| name.as_str()));
    let preferred = FONTS.iter().find(|name| families().any(|family| family == **name)).copied();
    preferred.or_else(|| families().next()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Bar, Frame, bars};

    #[test]
    fn a_plot_becomes_a_picture_or_the_lack_of_fonts_is_said() {
        let bar = Bar { name: "torch".to_owned(), colour: 1, value: 1.0, note: "88".to_owned() };
        let svg = bars(&Frame { title: "Samples/s".to_owned(), ..Frame::default() }, &[bar]);
        match Painter::new() {
            Ok(painter) => {
                let png = painter.png(&svg).unwrap();
                assert!(png.starts_with(b"\x89PNG") && png.len() > 1000);
                let empty =
                    painter.png("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 8 8\"></svg>");
                assert!(empty.unwrap().len() < 1000);
                assert!(painter.png("not a plot").is_err());
            }
            Err(error) => assert!(error.to_string().contains("fonts-dejavu-core")),
        }
    }
}
