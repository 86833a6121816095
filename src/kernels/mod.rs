//! Reductions and copies at memory speed.
//!
//! The one entry for reductions is [`Fold::fold`]: fold k sources left to right, element by element, write to one or several
//! destinations. [`copy`] moves bytes.
