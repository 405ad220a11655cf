package cas

// FormatVersion is the version of a store as a whole that this package writes,
// in the file FORMAT. Older ones are read and appended to as they are; the first
// prune makes them this one.
// Since 2 the first frame of a segment may tell of a prune.
const FormatVersion = 2

// oldestFormat is the oldest version that is read.
const oldestFormat = 1
