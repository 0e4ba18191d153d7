//! Line charts as SVG: axes, units, legend, readable on light and on dark ground.

use core::fmt::Write;

/// How the values of the horizontal axis are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Each value that occurs at the same distance from the next.
    Even,
    /// By the logarithm.
    Logarithmic,
}

/// One line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Drawn dashed: a limit or a peer, beside which the others are seen.
    pub dashed: bool,
    /// Its points, by the horizontal value, which is above 0.
    pub points: Vec<(f64, f64)>,
}

/// A chart of several series.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The file's name, without its ending.
    pub name: String,
    /// Title of the plot.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x_label: String,
    /// The vertical axis, with its unit; it begins at 0.
    pub y_label: String,
    /// The horizontal axis.
    pub x_scale: Scale,
    /// The series, each a line.
    pub series: Vec<Series>,
}

impl Chart {
    /// The picture. A chart without points is only axes.
    pub fn svg(&self) -> String {
        let mut out = String::new();
        // A String takes everything: the results say nothing.
        let _ = self.draw(&mut out);
        out
    }

    fn draw(&self, out: &mut String) -> core::fmt::Result {
        let rows = self.series.len().div_ceil(LEGEND_COLUMNS);
        let legend_top = TOP + HEIGHT + 62.0;
        let total = legend_top + rows as f64 * LEGEND_ROW + 6.0;
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {total}\" \
             role=\"img\" aria-label=\"{}\">",
            escaped(&self.title)
        )?;
        out.push_str(STYLE);
        writeln!(out, "<rect class=\"ground\" width=\"{WIDTH}\" height=\"{total}\"/>")?;
        writeln!(
            out,
            "<text class=\"title\" x=\"{LEFT}\" y=\"24\">{}</text>",
            escaped(&self.title)
        )?;
        let axes = Axes::new(self);
        axes.draw(out, self)?;
        for (number, series) in self.series.iter().enumerate() {
            let class = number % COLOURS.len();
            let dash = if series.dashed { " dash" } else { "" };
            let points: Vec<(f64, f64)> =
                series.points.iter().map(|(x, y)| (axes.x(*x), axes.y(*y))).collect();
            write!(out, "<polyline class=\"line c{class}{dash}\" points=\"")?;
            for (x, y) in &points {
                write!(out, "{x:.1},{y:.1} ")?;
            }
            writeln!(out, "\"/>")?;
            for (x, y) in &points {
                writeln!(
                    out,
                    "<circle class=\"dot c{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"
                )?;
            }
            let (row, column) = (number / LEGEND_COLUMNS, number % LEGEND_COLUMNS);
            let x = LEFT + column as f64 * (RIGHT - LEFT) / LEGEND_COLUMNS as f64;
            let y = legend_top + row as f64 * LEGEND_ROW;
            writeln!(
                out,
                "<line class=\"line c{class}{dash}\" x1=\"{x}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text>",
                x + 24.0,
                x + 30.0,
                y + 4.0,
                escaped(&series.name)
            )?;
        }
        out.push_str("</svg>\n");
        Ok(())
    }
}

/// Where values lie in the picture.
struct Axes {
    scale: Scale,
    /// The horizontal values that occur, in order.
    values: Vec<f64>,
    y_max: f64,
    y_step: f64,
}

impl Axes {
    fn new(chart: &Chart) -> Axes {
        let points = || chart.series.iter().flat_map(|s| &s.points);
        let mut values: Vec<f64> = points().map(|(x, _)| *x).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let highest = points().map(|(_, y)| *y).fold(0.0, f64::max);
        let y_step = step(highest);
        let y_max = (highest / y_step).ceil().max(1.0) * y_step;
        Axes { scale: chart.x_scale, values, y_max, y_step }
    }

    fn x(&self, value: f64) -> f64 {
        let part = match (self.scale, self.values.first(), self.values.last()) {
            (Scale::Logarithmic, Some(first), Some(last)) if last > first => {
                (value / first).ln() / (last / first).ln()
            }
            (Scale::Even, ..) if self.values.len() > 1 => {
                let place = self.values.partition_point(|v| *v < value);
                place as f64 / (self.values.len() - 1) as f64
            }
            _ => 0.5,
        };
        LEFT + INSET + part * (RIGHT - LEFT - 2.0 * INSET)
    }

    fn y(&self, value: f64) -> f64 {
        TOP + HEIGHT * (1.0 - value / self.y_max)
    }

    fn draw(&self, out: &mut String, chart: &Chart) -> core::fmt::Result {
        let bottom = TOP + HEIGHT;
        let lines = (self.y_max / self.y_step).round() as usize;
        for line in 0..=lines {
            let value = line as f64 * self.y_step;
            let y = self.y(value);
            writeln!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{RIGHT}\" y2=\"{y:.1}\"/>\
                 <text class=\"end\" x=\"{}\" y=\"{:.1}\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                short(value)
            )?;
        }
        for value in &self.values {
            let x = self.x(*value);
            writeln!(
                out,
                "<line class=\"tick\" x1=\"{x:.1}\" y1=\"{bottom}\" x2=\"{x:.1}\" y2=\"{}\"/>\
                 <text class=\"middle\" x=\"{x:.1}\" y=\"{}\">{}</text>",
                bottom + 5.0,
                bottom + 20.0,
                short(*value)
            )?;
        }
        writeln!(
            out,
            "<text class=\"middle label\" x=\"{}\" y=\"{}\">{}</text>",
            (LEFT + RIGHT) / 2.0,
            bottom + 40.0,
            escaped(&chart.x_label)
        )?;
        writeln!(
            out,
            "<text class=\"label\" x=\"{LEFT}\" y=\"{}\">{}</text>",
            TOP - 12.0,
            escaped(&chart.y_label)
        )
    }
}

/// A step of 1, 2 or 5 times a power of ten that gives four to ten lines.
fn step(highest: f64) -> f64 {
    if highest <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf((highest / 4.0).log10().floor());
    let factor = highest / 4.0 / power;
    power
        * if factor >= 5.0 {
            5.0
        } else if factor >= 2.0 {
            2.0
        } else {
            1.0
        }
}

/// A number for an axis: `100k` rather than `100000`.
fn short(value: f64) -> String {
    let rounded = |v: f64| {
        let text = format!("{v:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match value {
        v if v >= 1e6 => format!("{}M", rounded(v / 1e6)),
        v if v >= 1e4 => format!("{}k", rounded(v / 1e3)),
        v => rounded(v),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 740.0;
const TOP: f64 = 64.0;
/// Between the axis and the first and last value.
const INSET: f64 = 14.0;
const LEGEND_COLUMNS: usize = 3;
const LEGEND_ROW: f64 = 20.0;
/// Told apart also by people who do not see all colours: after Okabe and Ito.
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#a07800", "#56b4e9", "#7a5cc8", "#808080"];

const STYLE: &str = "<style>
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.title { font-size: 15px; font-weight: 600; }
.label { fill: #57606a; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.ground { fill: #ffffff; } .grid { stroke: #d0d7de; } .tick { stroke: #57606a; }
.line { fill: none; stroke-width: 2; } .dash { stroke-dasharray: 6 4; }
line.c0, polyline.c0 { stroke: #0072b2; } circle.c0 { fill: #0072b2; }
line.c1, polyline.c1 { stroke: #d55e00; } circle.c1 { fill: #d55e00; }
line.c2, polyline.c2 { stroke: #009e73; } circle.c2 { fill: #009e73; }
line.c3, polyline.c3 { stroke: #cc79a7; } circle.c3 { fill: #cc79a7; }
line.c4, polyline.c4 { stroke: #a07800; } circle.c4 { fill: #a07800; }
line.c5, polyline.c5 { stroke: #56b4e9; } circle.c5 { fill: #56b4e9; }
line.c6, polyline.c6 { stroke: #7a5cc8; } circle.c6 { fill: #7a5cc8; }
line.c7, polyline.c7 { stroke: #808080; } circle.c7 { fill: #808080; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .label { fill: #9da7b1; }
.ground { fill: #0d1117; } .grid { stroke: #30363d; } .tick { stroke: #9da7b1; }
}
</style>
";

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: &[(f64, f64)], x_scale: Scale) -> Chart {
        Chart {
            name: "n".into(),
            title: "a < b & c".into(),
            x_label: "bytes".into(),
            y_label: "Mpps".into(),
            x_scale,
            series: vec![Series { name: "s".into(), dashed: false, points: points.to_vec() }],
        }
    }

    #[test]
    fn text_is_escaped_and_every_point_is_drawn() {
        let svg = chart(&[(64.0, 3.0), (1400.0, 1.0)], Scale::Even).svg();
        assert!(svg.contains("a &lt; b &amp; c") && !svg.contains("a < b"));
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains(">1400<") && svg.contains(">Mpps<") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn points_lie_where_their_values_say() {
        let chart = chart(&[(1.0, 0.0), (10.0, 5.0), (100.0, 10.0)], Scale::Logarithmic);
        let axes = Axes::new(&chart);
        let middle = (LEFT + RIGHT) / 2.0;
        assert!((axes.x(10.0) - middle).abs() < 1e-9);
        assert_eq!((axes.y(0.0), axes.y(10.0)), (TOP + HEIGHT, TOP));
        let even = Axes { scale: Scale::Even, ..axes };
        assert!((even.x(10.0) - middle).abs() < 1e-9);
    }

    #[test]
    fn nothing_and_one_point_are_charts_too() {
        for points in [&[][..], &[(5.0, 0.0)], &[(5.0, 2.0)]] {
            for scale in [Scale::Even, Scale::Logarithmic] {
                let svg = chart(points, scale).svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn axes_have_round_numbers() {
        for (highest, expected) in [(10.0, 2.0), (3.9, 0.5), (0.07, 0.01), (1234.0, 200.0)] {
            assert!((step(highest) - expected).abs() < expected * 1e-9, "{highest}");
        }
        assert_eq!(short(100_000.0), "100k");
        assert_eq!(short(1_000_000.0), "1M");
        assert_eq!(short(1400.0), "1400");
        assert_eq!(short(0.5), "0.5");
    }

    #[test]
    fn every_colour_has_its_style() {
        for (number, colour) in COLOURS.iter().enumerate() {
            assert!(STYLE.contains(&format!("circle.c{number} {{ fill: {colour}; }}")));
        }
    }
}
