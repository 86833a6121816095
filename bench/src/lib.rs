//! nccl-tests in shape.
