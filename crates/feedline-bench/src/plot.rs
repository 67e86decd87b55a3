//! Plots as SVG: lines, bars, heat maps and timelines, readable in light and dark and on paper.
//!
//! A plot is text with coordinates; colours come from a [style] sheet, which a page has once, and which
//! [`standalone`] brings along for a file of its own. Values are in `<title>` elements, which browsers show
//! where the pointer is and which need no script.

use std::fmt::Write as _;

/// Width and height of a plot, in its own units.
const SIZE: (f64, f64) = (640.0, 360.0);
/// Room for labels: left, top, right, bottom.
const MARGIN: (f64, f64, f64, f64) = (64.0, 34.0, 16.0, 46.0);

/// The names of colours in plots, by day and by night. `c0` and so on are those of series.
const COLOURS: [(&str, &str, &str); 11] = [
    ("ink", "#1c2733", "#e6ebf0"),
    ("faint", "#d8dee6", "#3a4653"),
    ("soft", "#5d6b7a", "#9aa7b4"),
    ("c0", "#7a8794", "#98a4b0"),
    ("c1", "#d9480f", "#ff8542"),
    ("c2", "#1971c2", "#5aa9f0"),
    ("c3", "#2f9e44", "#58c46e"),
    ("c4", "#9c36b5", "#cc7ae0"),
    ("c5", "#e8a200", "#f2c14e"),
    ("c6", "#0c8599", "#3bc0d4"),
    ("c7", "#c2255c", "#f06a97"),
];

const RULES: &str = "\
.plot text{fill:var(--ink);font-family:system-ui,sans-serif;font-size:12px}.plot .soft{fill:var(--soft)}\
.plot .grid{stroke:var(--faint);stroke-width:1}\
.plot .axis{stroke:var(--soft);stroke-width:1}.plot .line{fill:none;stroke-width:2.2;stroke-linejoin:round}\
.plot .ideal{stroke:var(--soft);stroke-dasharray:5 4;stroke-width:1.4}.plot .title{font-weight:600;font-size:13px}";

/// The style sheet of plots, which follows the reader's choice of light or dark.
pub fn style() -> String {
    let list = |colour: &dyn Fn(&(&str, &'static str, &'static str)) -> &'static str| {
        COLOURS.iter().map(|one| format!("--{}:{}", one.0, colour(one))).collect::<Vec<_>>().join(";")
    };
    format!(
        ".plot{{{}}}@media(prefers-color-scheme:dark){{.plot{{{}}}}}{RULES}",
        list(&|one| one.1),
        list(&|one| one.2)
    )
}

/// A series of points, with a range around each.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// What it is called.
    pub name: String,
    /// Its colour's number.
    pub colour: usize,
    /// Position, value, lowest and highest.
    pub points: Vec<(f64, f64, f64, f64)>,
    /// Whether it is a calculation and not a measurement.
    pub ideal: bool,
}

/// What stands around a plot.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Above it.
    pub title: String,
    /// Below the horizontal axis.
    pub x: String,
    /// Beside the vertical axis.
    pub y: String,
}

/// A plot as a file of its own.
pub fn standalone(svg: &str) -> String {
    svg.replacen('>', &format!("><style>{}</style>", style()), 1)
}

/// A plot as a file for programs that know no variables: by day.
pub fn plain(svg: &str) -> String {
    let mut svg = svg.replacen('>', &format!("><style>{RULES}</style>"), 1);
    for (name, colour, _) in COLOURS {
        svg = svg.replace(&format!("var(--{name})"), colour);
    }
    svg
}

/// Text for XML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A number with as many digits as one reads.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if size >= 1e6 {
        format!("{:.3}M", value / 1e6)
    } else if size >= 10_000.0 {
        format!("{:.0}k", value / 1e3)
    } else if size >= 100.0 || size == 0.0 {
        format!("{value:.0}")
    } else if size >= 1.0 {
        trimmed(&format!("{value:.2}"))
    } else {
        trimmed(&format!("{value:.4}"))
    }
}

fn trimmed(text: &str) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Steps of 1, 2 or 5 that cut a range from zero into about five.
fn steps(most: f64) -> Vec<f64> {
    if most.is_nan() || most <= 0.0 {
        return vec![0.0, 1.0];
    }
    let rough = most / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|f| f * power).find(|s| *s >= rough).unwrap_or(rough);
    (0..=(most / step).ceil() as usize).map(|n| n as f64 * step).collect()
}

struct Canvas {
    svg: String,
    height: f64,
    left: f64,
    /// Where the plot begins, below title and key.
    top: f64,
}

/// The height of a line of a key.
const KEY: f64 = 15.0;

/// The names of a key, as many to a line as fit.
fn key_lines(names: &[(String, usize)], left: f64) -> Vec<Vec<(f64, &(String, usize))>> {
    let mut lines = vec![Vec::new()];
    let mut x = left;
    for name in names {
        let width = 7.0 * name.0.chars().count() as f64 + 26.0;
        if x + width > SIZE.0 - MARGIN.2 && x > left {
            lines.push(Vec::new());
            x = left;
        }
        lines.last_mut().expect("there is one").push((x, name));
        x += width;
    }
    lines
}

impl Canvas {
    fn new(frame: &Frame, height: f64, left: f64) -> Self {
        let (width, _) = SIZE;
        let title = escape(&frame.title);
        let mut svg = format!(
            "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"{title}\">"
        );
        let _ = write!(svg, "<text class=\"title\" x=\"{left}\" y=\"18\">{title}</text>");
        let middle = f64::midpoint(left, width - MARGIN.2);
        let _ = write!(
            svg,
            "<text class=\"soft\" x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            height - 8.0,
            escape(&frame.x)
        );
        if !frame.y.is_empty() {
            let up = f64::midpoint(MARGIN.1, height - MARGIN.3);
            let _ = write!(
                svg,
                "<text class=\"soft\" transform=\"translate(14 {up:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
                escape(&frame.y)
            );
        }
        Self { svg, height, left, top: MARGIN.1 }
    }

    fn bottom(&self) -> f64 {
        self.height - MARGIN.3
    }

    /// Horizontal lines with their values; returns the scale.
    fn values(&mut self, most: f64) -> impl Fn(f64) -> f64 + use<> {
        let steps = steps(most);
        let (top, bottom) = (self.top + 8.0, self.bottom());
        let highest = steps.last().copied().unwrap_or(1.0);
        let scale = move |value: f64| bottom - (value / highest).min(1.0) * (bottom - top);
        for value in steps {
            let y = scale(value);
            let _ = write!(
                self.svg,
                "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                self.left,
                SIZE.0 - MARGIN.2,
                self.left - 7.0,
                y + 4.0,
                short(value)
            );
        }
        scale
    }

    fn below(&mut self, x: f64, text: &str) {
        let y = self.bottom() + 16.0;
        let _ = write!(
            self.svg,
            "<text class=\"soft\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>",
            escape(text)
        );
    }

    fn key(&mut self, names: &[(String, usize)]) {
        for (line, names) in key_lines(names, self.left).into_iter().enumerate() {
            let y = 26.0 + KEY * line as f64;
            for (x, (name, colour)) in names {
                let _ = write!(
                    self.svg,
                    "<rect x=\"{x:.1}\" y=\"{y}\" width=\"10\" height=\"10\" rx=\"2\" fill=\"var(--c{})\"/>\
                     <text x=\"{:.1}\" y=\"{}\">{}</text>",
                    colour % 8,
                    x + 14.0,
                    y + 9.0,
                    escape(name)
                );
            }
        }
    }

    fn end(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

/// Lines over numbered positions, which stand at equal distances: 1, 2, 4, 8 workers.
pub fn lines(frame: &Frame, series: &[Series]) -> String {
    let mut positions: Vec<f64> =
        series.iter().flat_map(|one| one.points.iter().map(|point| point.0)).collect();
    positions.sort_by(f64::total_cmp);
    positions.dedup();
    let names: Vec<(String, usize)> =
        series.iter().filter(|one| !one.ideal).map(|one| (one.name.clone(), one.colour)).collect();
    let more = KEY * (key_lines(&names, MARGIN.0).len() - 1) as f64;
    let mut canvas = Canvas::new(frame, SIZE.1 + more, MARGIN.0);
    canvas.top += more;
    let most = series.iter().flat_map(|one| one.points.iter().map(|point| point.3)).fold(0.0, f64::max);
    let up = canvas.values(most);
    let room = (SIZE.0 - MARGIN.2 - MARGIN.0) / positions.len().max(1) as f64;
    let many = positions.len() > 24;
    let along = |position: f64| {
        let at = positions.iter().position(|known| *known == position).unwrap_or(0);
        MARGIN.0 + room * (at as f64 + 0.5)
    };
    let every = positions.len().div_ceil(16);
    for (at, position) in positions.iter().enumerate() {
        if at % every == 0 {
            canvas.below(along(*position), &short(*position));
        }
    }
    for one in series {
        let path: Vec<String> =
            one.points.iter().map(|(x, y, ..)| format!("{:.1},{:.1}", along(*x), up(*y))).collect();
        let class = if one.ideal { "line ideal" } else { "line" };
        let colour =
            if one.ideal { String::new() } else { format!(" stroke=\"var(--c{})\"", one.colour % 8) };
        let _ = write!(canvas.svg, "<polyline class=\"{class}\"{colour} points=\"{}\"/>", path.join(" "));
        for (x, y, low, high) in one.points.iter().filter(|_| !one.ideal) {
            let (left, colour) = (along(*x), one.colour % 8);
            if high > low {
                let _ = write!(
                    canvas.svg,
                    "<line x1=\"{left:.1}\" x2=\"{left:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"var(--c{colour})\" \
                     stroke-opacity=\".55\"/>",
                    up(*low),
                    up(*high)
                );
            }
            let _ = write!(
                canvas.svg,
                "<circle cx=\"{left:.1}\" cy=\"{:.1}\" r=\"{}\" fill=\"var(--c{colour})\"><title>{}, {}: {}</title></circle>",
                up(*y),
                if many { 2 } else { 4 },
                escape(&one.name),
                short(*x),
                short(*y)
            );
        }
    }
    canvas.key(&names);
    canvas.end()
}

/// One horizontal bar: what it is, its colour, its value, and what to write behind it.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Beside it.
    pub name: String,
    /// Its colour's number.
    pub colour: usize,
    /// Its length.
    pub value: f64,
    /// Behind it.
    pub note: String,
}

/// Bars, one below the other.
pub fn bars(frame: &Frame, bars: &[Bar]) -> String {
    let height = MARGIN.1 + 26.0 * bars.len() as f64 + 30.0;
    let left = 24.0 + 7.0 * bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0) as f64;
    let mut canvas = Canvas::new(frame, height, left);
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let room = SIZE.0 - left - 150.0;
    for (at, bar) in bars.iter().enumerate() {
        let y = MARGIN.1 + 26.0 * at as f64;
        let width = if most > 0.0 { bar.value / most * room } else { 0.0 };
        let _ = write!(
            canvas.svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{left}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"18\" rx=\"3\" fill=\"var(--c{})\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left - 8.0,
            y + 13.0,
            escape(&bar.name),
            bar.colour % 8,
            left + width + 8.0,
            y + 13.0,
            escape(&bar.note)
        );
    }
    canvas.end()
}

/// Bars of parts, one below the other, with their sum behind them. Parts are values with the number of their colour, which
/// `names` explains.
pub fn stacked(frame: &Frame, names: &[(&str, usize)], rows: &[(String, Vec<(f64, usize)>)]) -> String {
    let height = MARGIN.1 + 12.0 + 26.0 * rows.len() as f64 + 20.0;
    let left = 24.0 + 7.0 * rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) as f64;
    let mut canvas = Canvas::new(frame, height, left);
    let sum = |parts: &[(f64, usize)]| parts.iter().map(|(value, _)| value.max(0.0)).sum::<f64>();
    let most = rows.iter().map(|(_, parts)| sum(parts)).fold(0.0, f64::max);
    let room = SIZE.0 - left - 80.0;
    for (down, (name, parts)) in rows.iter().enumerate() {
        let y = MARGIN.1 + 12.0 + 26.0 * down as f64;
        let _ = write!(
            canvas.svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            y + 13.0,
            escape(name)
        );
        let mut x = left;
        for (value, colour) in parts.iter().filter(|(value, _)| *value > 0.0) {
            let width = value / most * room;
            let what = names.iter().find(|(_, known)| known == colour).map_or("", |(name, _)| name);
            let _ = write!(
                canvas.svg,
                "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"18\" fill=\"var(--c{})\">\
                 <title>{}: {} s</title></rect>",
                colour % 8,
                escape(what),
                short(*value)
            );
            x += width;
        }
        let _ = write!(
            canvas.svg,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x + 8.0,
            y + 13.0,
            short(sum(parts))
        );
    }
    let names: Vec<(String, usize)> =
        names.iter().map(|(name, colour)| ((*name).to_owned(), *colour)).collect();
    canvas.key(&names);
    canvas.end()
}

/// A table of values as shades: rows and columns have names, missing values stay empty.
pub fn heat(frame: &Frame, columns: &[String], rows: &[(String, Vec<Option<f64>>)]) -> String {
    let height = MARGIN.1 + 34.0 * rows.len() as f64 + MARGIN.3 + 10.0;
    let mut canvas = Canvas::new(frame, height, MARGIN.0 + 20.0);
    let left = MARGIN.0 + 20.0;
    let width = (SIZE.0 - MARGIN.2 - left) / columns.len().max(1) as f64;
    let most = rows.iter().flat_map(|(_, values)| values.iter().flatten()).copied().fold(0.0, f64::max);
    for (at, name) in columns.iter().enumerate() {
        canvas.below(left + width * (at as f64 + 0.5), name);
    }
    for (down, (name, values)) in rows.iter().enumerate() {
        let y = MARGIN.1 + 34.0 * down as f64;
        let _ = write!(
            canvas.svg,
            "<text class=\"soft\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            y + 21.0,
            escape(name)
        );
        for (at, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let x = left + width * at as f64;
            let share = if most > 0.0 { value / most } else { 0.0 };
            let _ = write!(
                canvas.svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"32\" rx=\"3\" fill=\"var(--c2)\" \
                 fill-opacity=\"{:.2}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                x + 1.0,
                y,
                width - 2.0,
                0.08 + 0.72 * share,
                x + width / 2.0,
                y + 21.0,
                short(*value)
            );
        }
    }
    canvas.end()
}

/// A span on a lane of a timeline: from, to, colour, what it is.
#[derive(Clone, Debug)]
pub struct Span {
    /// Seconds.
    pub from: f64,
    /// Seconds.
    pub to: f64,
    /// Its colour's number.
    pub colour: usize,
    /// What it is.
    pub name: String,
}

/// Lanes with spans, one below the other, on one axis of time that is at least so long.
pub fn timeline(frame: &Frame, lanes: &[(String, Vec<Span>)], length: f64) -> String {
    let height = MARGIN.1 + 24.0 * lanes.len() as f64 + MARGIN.3;
    let left = 24.0 + 7.0 * lanes.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) as f64;
    let mut canvas = Canvas::new(frame, height, left);
    let end = lanes.iter().flat_map(|(_, spans)| spans.iter().map(|span| span.to)).fold(length, f64::max);
    let along = |seconds: f64| left + seconds / end.max(1e-9) * (SIZE.0 - MARGIN.2 - left);
    for value in steps(end).into_iter().filter(|value| *value <= end) {
        let x = along(value);
        let _ = write!(
            canvas.svg,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{:.1}\"/>",
            MARGIN.1,
            canvas.bottom()
        );
        canvas.below(x, &short(value));
    }
    for (down, (name, spans)) in lanes.iter().enumerate() {
        let y = MARGIN.1 + 24.0 * down as f64;
        let _ = write!(
            canvas.svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            y + 14.0,
            escape(name)
        );
        for span in spans {
            let (from, to) = (along(span.from), along(span.to));
            let _ = write!(
                canvas.svg,
                "<rect x=\"{from:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"18\" fill=\"var(--c{})\" stroke=\"none\">\
                 <title>{}: {} s to {} s</title></rect>",
                (to - from).max(0.4),
                span.colour % 8,
                escape(&span.name),
                short(span.from),
                short(span.to)
            );
        }
    }
    canvas.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_reach_the_top() {
        assert_eq!(steps(8.6), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(steps(0.3).len(), 4);
        assert_eq!(steps(f64::NAN), [0.0, 1.0]);
        for most in [0.001, 3.0, 97.0, 12_345.0] {
            assert!(steps(most).last().is_some_and(|last| *last >= most));
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 0.0512, 1.5, 88.61, 1253.4, 23_456.0, 2_500_000.0].map(short),
            ["0", "0.0512", "1.5", "88.61", "1253", "23k", "2.500M"]
        );
    }

    #[test]
    fn a_plain_plot_has_colours_and_no_variables() {
        let bar = Bar { name: "torch".to_owned(), colour: 1, value: 1.0, note: String::new() };
        let plain = plain(&bars(&Frame::default(), &[bar]));
        assert!(plain.contains("#d9480f") && !plain.contains("var("), "{plain}");
    }

    #[test]
    fn a_long_key_has_several_lines() {
        let names: Vec<_> =
            (0..7).map(|colour| (format!("a loader of some name {colour}"), colour)).collect();
        let lines = key_lines(&names, MARGIN.0);
        assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2, 1]);
        assert_eq!(key_lines(&names[..1], MARGIN.0).len(), 1);
    }

    #[test]
    fn names_cannot_break_out_of_a_plot() {
        let frame = Frame { title: "<script>\"&".to_owned(), ..Frame::default() };
        let bar = Bar { name: "</svg>".to_owned(), colour: 9, value: f64::NAN, note: "a < b".to_owned() };
        let svg = bars(&frame, &[bar]);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
        assert_eq!((svg.matches("<script").count(), svg.matches("</svg>").count()), (0, 1));
    }
}
