//! Save requests as an attacker writes them down: what can be decoded is encoded as it was, and an
//! index that did not plan it refuses it without a panic, also under the index's own name.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tenure::{BlockId, Config, GroupId, Refused, SaveRequest, Stale};

fuzz_target!(|bytes: &[u8]| {
    let Ok(request) = serde_json::from_slice::<SaveRequest>(bytes) else { return };
    let tokens = request.tokens();
    assert!(tokens.start < tokens.end, "an empty range was decoded: {request:?}");
    let encoded = serde_json::to_vec(&request).expect("can be encoded");
    assert_eq!(serde_json::from_slice::<SaveRequest>(&encoded).ok(), Some(request));

    let (mut scheduler, index) = Config::new(8).block_sizes([4]).build().expect("can be built");
    let key = scheduler.admit("r").expect("a new label");
    scheduler.assign(key, GroupId(0), &[BlockId(3), BlockId(5)]).expect("free");
    scheduler.publish();
    if request.index() != index.id() {
        let refused = index.pin(&request).err();
        assert_eq!(refused, Some(Refused::Stale(Stale::EpochUnknown)), "{request:?}");
    }
    let (groups, kind) = (request.groups(), request.kind());
    let own =
        SaveRequest::from_parts(index.id(), request.key(), request.epoch(), tokens, groups, kind);
    if let Ok(own) = own {
        let pinned = index.pin(&own);
        assert_eq!(pinned.is_ok(), index.check(&own).is_ok(), "{own:?}");
        assert!(pinned.is_err() || own.key() == key, "{own:?}");
        let _ = index.replan(&own);
    }
});
