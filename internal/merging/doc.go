// Package merging makes of what is at a path, and of changes that go or come there, what
// the path is to become: one merge for each change, newest first, and a [Clash] of what
// cannot be done. Of a turn of which a part was taken back it merges what the turn would
// have left without that, and it says what of a change was done in part. It reads contents
// from a [Source], writes nothing, and knows neither store nor directory.
package merging
