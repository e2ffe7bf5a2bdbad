//! Numbers for people.

/// A count with its thousands apart.
pub fn count(value: impl Into<u64>) -> String {
    let digits = value.into().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time with three digits.
pub fn duration(nanos: f64) -> String {
    let (value, unit) = in_unit(nanos);
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// A time with no more digits than it needs, for an axis.
pub fn round_duration(nanos: f64) -> String {
    let (value, unit) = in_unit(nanos);
    format!("{} {unit}", round(value))
}

/// A number with no more digits than it needs, in thousands or millions where it is large.
pub fn round_count(value: f64) -> String {
    let (value, unit) = match value {
        small if small < 1e3 => (small, ""),
        thousands if thousands < 1e6 => (thousands / 1e3, "k"),
        millions => (millions / 1e6, "M"),
    };
    format!("{}{unit}", round(value))
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn in_unit(nanos: f64) -> (f64, &'static str) {
    match nanos {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "us"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        let counts = [0_u64, 999, 1000, 1234567].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
        let times = [3.456, 56.78, 999.0, 12_345.0, 7.5e9].map(duration);
        assert_eq!(times, ["3.46 ns", "56.8 ns", "999 ns", "12.3 us", "7.50 s"]);
        let times = [0.0, 500.0, 2e3, 5e7].map(round_duration);
        assert_eq!(times, ["0 ns", "500 ns", "2 us", "50 ms"]);
        assert_eq!([0.5, 9000.0, 2e4, 1.5e6].map(round_count), ["0.5", "9k", "20k", "1.5M"]);
    }
}
