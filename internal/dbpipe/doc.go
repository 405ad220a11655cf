// Package dbpipe uses a database whose driver is linked into another program: that of
// snapctl-checkpoints, which is twice the size of snapctl and of use to few of its users.
//
// [Serve] runs in the program with the drivers. It reads requests from its standard input and
// writes answers to its standard output, and ends when the input does. A [Connector] is given to
// [database/sql.OpenDB] by who has started that program. Each connection on one side is one on the
// other, and each call on it a request, so what a driver promises holds on both: what it says of
// a connection that is lost, what a cancelled statement leaves, the SQLSTATE of an error.
//
// Transactions are begun and ended by statements, as package checkpoint does it. Prepared
// statements, sql.Tx and named arguments are refused, and types of columns are not known. The
// answer to a query is held in memory as a whole.
//
// Both sides are of one release: the first line that the program writes says which protocol
// it speaks, and any other than ours is an error.
package dbpipe
