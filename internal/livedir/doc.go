// Package livedir brings files of a live directory back to what they were,
// with nothing lost. It knows the difference between a tree and a disk;
// sessions and turns are the business of the package above.
//
// [NewPlan] compares what is wanted of each path with what was expected there
// and with what is there, and says what is to be done. What is not as expected
// is dirty: somebody has changed it, and the [rollback.Policy] says what becomes of it.
// [Plan.Save] puts what will go into the store, [Plan.Apply] does exactly what
// the plan says and nothing else.
//
// # What holds whatever happens
//
// A file is replaced in one step and is then looked at once more: if it was not
// what the plan found, it goes back. A process that is killed leaves each file
// old or new, and files named .boo-… beside them, which [Sweep] puts in order.
// Nothing is written through a symbolic link.
//
// What a plan deletes goes last, but for what is in a directory that becomes a
// file. A directory that was moved is restored like others; what is not known
// of it, since it was never captured, is moved along.
package livedir
