// Package audit follows what snapshots need, object by object: to check that it is
// there ([Checker]), to find out what is lost and put it back ([Mender], [Hurts]), to
// tell a prune what lives ([Marker]), what is whole ([IsWhole]), what it takes
// ([Tally]), and where a content is ([Finder]). All of them stand on one notion of
// what leads to what, in reach.go.
package audit
