// Package change changes the files of a live directory, whatever it is for: a
// restore, an undo or an edit. It goes one way from what is wanted to a record of
// what was done:
//
//	want    what each path is to become, and what is expected to be there
//	plan    what has to be done to each path
//	save    what will go is in the store
//	intent  the journal has the states before and after
//	apply   the files are written
//	record  the journal has what was done
//
// Whoever makes a change brings the wants and their plan ([Between] makes the wants
// that lead from one state to another) and writes the records ([Records]).
// [Change.Do] does the rest. What a want asks for need not be in any state: a maker may
// put a content of its own into the change's writer.
//
// Nothing is written before the intent is on record. A crash or an error after it
// leaves some files as they were and others changed; [Change.End] then takes them all
// to one of the two states. It needs nothing but what the intent has. The process
// that looks at the directory next calls it.
package change
