//! The numbers agree with the ones inside.

use super::*;

#[test]
fn every_data_type_and_operation_crosses_by_its_own_number() {
    let named = [
        pennyInt8,
        pennyUint8,
        pennyInt32,
        pennyUint32,
        pennyInt64,
        pennyUint64,
        pennyFloat16,
        pennyFloat32,
        pennyFloat64,
        pennyBfloat16,
        pennyFloat8e4m3,
        pennyFloat8e5m2,
        pennyBool,
        pennyInt16,
        pennyUint16,
    ];
    assert_eq!(named.to_vec(), DataType::ALL.iter().map(|&t| t.into()).collect::<Vec<pennyDataType_t>>());
    let named = [
        pennySum,
        pennyProd,
        pennyMax,
        pennyMin,
        pennyAvg,
        pennySquareAdd,
        pennyLogicalAnd,
        pennyLogicalOr,
        pennyLogicalXor,
        pennyBitAnd,
        pennyBitOr,
        pennyBitXor,
    ];
    assert_eq!(named.to_vec(), RedOp::ALL.iter().map(|&op| op.into()).collect::<Vec<pennyRedOp_t>>());
}

#[test]
fn a_number_that_is_no_member_is_refused_by_name() {
    for number in [-1, 12, 63, 67, c_int::MAX, c_int::MIN] {
        // SAFETY: a number is valid whatever it is.
        let refused = unsafe { pennyDataType_t(number).admit("datatype") }.unwrap_err();
        assert_eq!(refused, Error::argument(format!("datatype is {number}, no pennyDataType_t")));
    }
    for number in [-1, 5, 63, 71, 4096, c_int::MAX, c_int::MIN] {
        // SAFETY: as above.
        let refused = unsafe { pennyRedOp_t(number).admit("op") }.unwrap_err();
        assert_eq!(refused, Error::argument(format!("op is {number}, no pennyRedOp_t")));
    }
}
