// Package httpapi serves the checkpoints of a runtime as HTTP with JSON, to the
// runtime itself and to its user interface: docs/reference/http.md has requests and answers.
//
// New returns a handler, to be served on the loopback interface. It is made for a
// machine on which other users, and web pages that the user happens to look at,
// may send requests, too: each must carry the token, name the server by a name
// that is its own, and come from no page of another origin. That is looked at before
// anything else.
//
// Beside them it can answer the verbs of docs/reference/rpc.md, one request each, if it is told
// how.
//
// It decodes, makes one call to package checkpoint, and encodes. A client that goes away
// ends its request: what a restore had done by then is taken back.
package httpapi
