//! An axis: which values it spans, where they fall, and which of them are named.

/// How values are spread over an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// Each decade as long as the next. Values below the axis stand at its beginning.
    Log,
}

/// An axis of a chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    pub(super) title: String,
    pub(super) ticks: Vec<(f64, String)>,
    low: f64,
    high: f64,
    scale: Scale,
}

/// About so many values are named.
const TICKS: f64 = 5.0;

impl Axis {
    /// An axis over all of `values`, from 0 where it is linear. `name` says how a value is written.
    pub fn over(
        title: &str,
        scale: Scale,
        values: impl IntoIterator<Item = f64>,
        name: impl Fn(f64) -> String,
    ) -> Axis {
        let positive = |value: &f64| value.is_finite() && *value > 0.0;
        let mut values = values.into_iter().filter(positive).peekable();
        let (low, high) = match values.peek() {
            None => (1.0, 10.0),
            Some(_) => values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
                (low.min(value), high.max(value))
            }),
        };
        let (low, high, ticks) = match scale {
            Scale::Linear => {
                let step = round_step(high / TICKS);
                let high = (high / step).ceil() * step;
                let ticks = (0..=(high / step).round() as u32).map(|n| f64::from(n) * step);
                (0.0, high, ticks.collect())
            }
            Scale::Log => decades(low, high),
        };
        let ticks = ticks.into_iter().map(|value: f64| (value, name(value))).collect();
        Axis { title: title.to_owned(), ticks, low, high, scale }
    }

    /// A linear axis from 0 that ends where the values do.
    pub fn until(title: &str, high: f64, name: impl Fn(f64) -> String) -> Axis {
        let mut axis = Axis::over(title, Scale::Linear, [high], name);
        if high.is_finite() && high > 0.0 {
            axis.high = high;
            axis.ticks.retain(|tick| tick.0 <= high);
        }
        axis
    }

    /// An axis of quantiles, where each further nine takes as much room as the one before:
    /// [`nines`] says where a quantile stands.
    pub fn of_quantiles(title: &str, most_nines: u32) -> Axis {
        let name = |n: u32| match n {
            0 => "0 %".to_owned(),
            1 => "90 %".to_owned(),
            2 => "99 %".to_owned(),
            n => format!("99.{} %", "9".repeat(n as usize - 2)),
        };
        Axis {
            title: title.to_owned(),
            ticks: (0..=most_nines).map(|n| (f64::from(n), name(n))).collect(),
            low: 0.0,
            high: f64::from(most_nines.max(1)),
            scale: Scale::Linear,
        }
    }

    /// Where a value stands: 0 at the beginning of the axis, 1 at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        place.clamp(0.0, 1.0)
    }
}

/// The next of 1, 2 and 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least * 0.999);
    factor.unwrap_or(10.0) * power
}

/// Whole steps of 1, 2 and 5 around the values; powers of ten alone are named where there are many.
fn decades(low: f64, high: f64) -> (f64, f64, Vec<f64>) {
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    let mut steps: Vec<f64> = (first..=last)
        .flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * 10_f64.powi(power)))
        .collect();
    let from = steps.iter().rposition(|&step| step <= low).unwrap_or(0);
    let to = steps.iter().position(|&step| step >= high).unwrap_or(steps.len() - 1);
    let to = to.max(from + 1).min(steps.len() - 1);
    let (low, high) = (steps[from], steps[to]);
    steps.retain(|&step| (low..=high).contains(&step));
    if steps.len() > 7 {
        let is_power = |step: f64| (step.log10() - step.log10().round()).abs() < 1e-9;
        steps.retain(|&step| is_power(step));
    }
    (low, high, steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(axis: &Axis) -> Vec<f64> {
        axis.ticks.iter().map(|tick| tick.0).collect()
    }

    #[test]
    fn a_linear_axis_begins_at_zero_and_ends_at_a_round_value() {
        let axis = Axis::over("", Scale::Linear, [3.0, 87.0], |value| value.to_string());
        assert_eq!(ticks(&axis), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!((axis.place(0.0), axis.place(50.0), axis.place(999.0)), (0.0, 0.5, 1.0));
    }

    #[test]
    fn an_axis_may_end_at_any_value() {
        let axis = Axis::until("", 87.0, |value| value.to_string());
        assert_eq!(ticks(&axis), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(axis.place(87.0), 1.0);
    }

    #[test]
    fn a_logarithmic_axis_names_powers_of_ten_or_more_where_there_are_few() {
        let axis = |values| Axis::over("", Scale::Log, values, |value| value.to_string());
        assert_eq!(ticks(&axis([30.0, 170.0])), [20.0, 50.0, 100.0, 200.0]);
        assert_eq!(ticks(&axis([1.0, 100_000.0])), [1.0, 1e1, 1e2, 1e3, 1e4, 1e5]);
        let axis = axis([1.0, 10_000.0]);
        assert!((axis.place(100.0) - 0.5).abs() < 1e-9);
        assert_eq!(axis.place(0.0), 0.0);
    }

    #[test]
    fn values_that_say_nothing_make_an_axis_too() {
        for values in [vec![], vec![0.0], vec![f64::NAN, f64::INFINITY], vec![5.0]] {
            for scale in [Scale::Linear, Scale::Log] {
                let axis = Axis::over("", scale, values.clone(), |value| value.to_string());
                assert!(axis.ticks.len() > 1, "{values:?} {scale:?}");
                assert!((0.0..=1.0).contains(&axis.place(5.0)), "{values:?} {scale:?}");
            }
        }
    }
}
