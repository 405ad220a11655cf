// Package standing tells where the paths of a session stand: which of the session's changes
// are in, and what is expected to be there. Both are read off the records. It writes
// nothing and knows no directory.
//
// A position is a record from which others lead back, newest first: a turn to what it was
// built on, a start to the line that it was forked from. A restore moves the position to
// another one. Where it could not do so for every path it is a joint: a position from which
// some paths go back another way than the rest. So the changes that are in at a path are the
// turns that changed it on its own way back, and what is expected is what the newest of
// them left.
//
// A restore may take back a part of what turns did at a path, while the rest of it stays in:
// a cut. The record of such a restore, a joint, names the turns and the lines. At the path
// it is a change itself, from what the restore found to what it left, which is in behind
// those of the turns: it can be taken back, as by a restore to a moment before it, and it is
// void where the turns are not in.
//
// [Line] leads from record to record, [Trail] goes over what is in, at all paths or at one,
// and [Paths] says what that did to them.
package standing
