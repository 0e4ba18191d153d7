//! Numbers as people read them: counts, rates, spans, times.

/// A count with its unit prefix: `999`, `12.3k`, `4.56M`.
pub fn si(value: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    for (scale, unit) in UNITS {
        if value >= scale * 10 || (value >= scale && scale > 1_000) {
            let scaled = value as f64 / scale as f64;
            return if scaled < 10.0 {
                format!("{scaled:.2}{unit}")
            } else {
                format!("{scaled:.1}{unit}")
            };
        }
    }
    value.to_string()
}

/// A rate, as [`si`]; below ten with a decimal. One that is not known is a dash.
pub fn rate(per_second: f64) -> String {
    match per_second {
        unknown if unknown.is_nan() => "-".into(),
        0.0 => "0".into(),
        small if small < 9.95 => format!("{small:.1}"),
        large => si(large.round() as u64),
    }
}

/// A time span: `42s`, `3m05s`, `2h10m`, `5d03h`.
pub fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86400, seconds % 86400 / 3600),
    }
}

/// A short time: `870ns`, `3.5us`, `12ms`, `2.0s`.
pub fn brief(ns: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    match UNITS.into_iter().find(|(scale, _)| ns >= *scale) {
        Some((scale, unit)) if ns < 10 * scale => format!("{:.1}{unit}", ns as f64 / scale as f64),
        Some((scale, unit)) => format!("{}{unit}", ns / scale),
        None => format!("{ns}ns"),
    }
}

/// The time of day in UTC, of milliseconds since 1970.
pub fn time_text(time_ms: u64) -> String {
    let ms = time_ms % 86_400_000;
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{:03}", ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(si(0), "0");
        assert_eq!(si(9999), "9999");
        assert_eq!(si(12345), "12.3k");
        assert_eq!(si(4_560_000), "4.56M");
        assert_eq!((rate(0.0), rate(0.25), rate(9.96)), ("0".into(), "0.2".into(), "10".into()));
        assert_eq!(rate(12_345.6), "12.3k");
        assert_eq!(span(59), "59s");
        assert_eq!(span(185), "3m05s");
        assert_eq!(span(7800), "2h10m");
        assert_eq!(span(90000), "1d01h");
        assert_eq!(
            [870, 3_500, 12_900_000, 2_000_000_000].map(brief),
            ["870ns", "3.5us", "12ms", "2.0s"]
        );
        assert_eq!(time_text(86_400_000 + 3_723_004), "01:02:03.004");
    }
}
