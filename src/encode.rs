//! How saves and pictures of the tables are stored and sent, by `serde`.
//!
//! The form is fixed: names are written out, a save and a snapshot carry the version of their form,
//! and whatever is not known is refused. Being readable makes nothing valid: an index judges what it
//! is given, and a save of another index, another run or the future never matches.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ids::{BlockId, Epoch, GroupId, Groups, IndexId, RequestKey};
use crate::jobs::JobId;
use crate::request::{Kind, SaveRequest};
use crate::snapshot::{Snapshot, TableView};

/// The version of the form of a save request or a snapshot: the only one there is.
struct V1;

impl Serialize for V1 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(1)
    }
}

impl<'de> Deserialize<'de> for V1 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<V1, D::Error> {
        match u32::deserialize(deserializer)? {
            1 => Ok(V1),
            other => Err(D::Error::invalid_value(Unexpected::Unsigned(other.into()), &"version 1")),
        }
    }
}

/// 16 hexadecimal digits: not every reader of JSON keeps 64-bit numbers whole.
impl Serialize for IndexId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IndexId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IndexId, D::Error> {
        struct Digits;
        impl Visitor<'_> for Digits {
            type Value = IndexId;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("16 lower-case hexadecimal digits")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<IndexId, E> {
                let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                let well = text.len() == 16 && text.bytes().all(digit);
                let id = u64::from_str_radix(text, 16).ok().filter(|_| well).map(IndexId);
                id.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Digits)
    }
}

/// `slot.incarnation`, as it is shown.
impl Serialize for RequestKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RequestKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RequestKey, D::Error> {
        struct Parts;
        impl Visitor<'_> for Parts {
            type Value = RequestKey;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key like 3.1")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RequestKey, E> {
                let parts = text.split_once('.');
                let key = parts.and_then(|(slot, incarnation)| {
                    Some(RequestKey::new(slot.parse().ok()?, incarnation.parse().ok()?))
                });
                // One spelling for each key.
                let key = key.filter(|key| key.to_string() == text);
                key.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Parts)
    }
}

/// A plain number.
impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.to_bits())
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JobId, D::Error> {
        u64::deserialize(deserializer).map(JobId::from_bits)
    }
}

/// The numbers of the groups, ascending.
impl Serialize for Groups {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Groups {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Groups, D::Error> {
        let listed = Vec::<GroupId>::deserialize(deserializer)?;
        if let Some(unknown) = listed.iter().find(|group| group.0 > 63) {
            let number = Unexpected::Unsigned(unknown.0.into());
            return Err(D::Error::invalid_value(number, &"a group number below 64"));
        }
        if !listed.is_sorted_by(|a, b| a < b) {
            return Err(D::Error::custom("groups are listed in ascending order, each once"));
        }
        Ok(listed.into_iter().collect())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename = "SaveRequest", deny_unknown_fields)]
struct RequestForm {
    version: V1,
    index: IndexId,
    key: RequestKey,
    epoch: Epoch,
    start: u64,
    end: u64,
    groups: Groups,
    kind: Kind,
}

impl Serialize for SaveRequest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SaveRequest { index, key, epoch, start, end, groups, kind } = *self;
        let form = RequestForm { version: V1, index, key, epoch, start, end, groups, kind };
        form.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SaveRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SaveRequest, D::Error> {
        let RequestForm { version: V1, index, key, epoch, start, end, groups, kind } =
            RequestForm::deserialize(deserializer)?;
        if groups.is_empty() || kind == Kind::Hold {
            return Err(D::Error::custom("a request saves or loads, and names groups"));
        }
        SaveRequest::from_parts(index, key, epoch, start..end, groups, kind)
            .map_err(D::Error::custom)
    }
}

#[derive(Serialize)]
#[serde(rename = "Snapshot")]
struct SnapshotOut<'a> {
    version: V1,
    index: IndexId,
    epoch: Epoch,
    requests: Vec<LifeOut<'a>>,
}

#[derive(Serialize)]
#[serde(rename = "Request")]
struct LifeOut<'a> {
    key: RequestKey,
    label: &'a str,
    tables: Vec<&'a [Option<BlockId>]>,
}

#[derive(Deserialize)]
#[serde(rename = "Snapshot", deny_unknown_fields)]
struct SnapshotIn {
    #[allow(dead_code)] // whoever reads another version is refused there
    version: V1,
    index: IndexId,
    epoch: Epoch,
    requests: Vec<LifeIn>,
}

#[derive(Deserialize)]
#[serde(rename = "Request", deny_unknown_fields)]
struct LifeIn {
    key: RequestKey,
    label: String,
    tables: Vec<Vec<Option<BlockId>>>,
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let requests = self.iter().map(|life| LifeOut {
            key: life.key,
            label: &life.label,
            tables: life.tables().collect(),
        });
        let (index, epoch) = (self.index(), self.epoch());
        SnapshotOut { version: V1, index, epoch, requests: requests.collect() }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Snapshot, D::Error> {
        let SnapshotIn { version: V1, index, epoch, requests } =
            SnapshotIn::deserialize(deserializer)?;
        let (mut keys, mut labels) = (HashSet::new(), HashSet::new());
        let groups = requests.first().map_or(0, |life| life.tables.len());
        for life in &requests {
            if !keys.insert(life.key) || !labels.insert(&life.label) {
                return Err(D::Error::custom(format_args!(
                    "request {:?} is listed twice",
                    life.label
                )));
            }
            if life.tables.len() != groups {
                return Err(D::Error::invalid_length(
                    life.tables.len(),
                    &"as many tables as the others",
                ));
            }
        }
        let lives = requests.into_iter().map(|life| {
            let tables = life.tables.into_iter().map(Into::into).collect();
            TableView::from_parts(life.key, Arc::from(life.label), epoch, tables)
        });
        Ok(Snapshot::from_parts(index, epoch, lives.collect()))
    }
}
