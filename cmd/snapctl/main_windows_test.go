package main

import "github.com/rogpeppe/go-internal/testscript"

var otherPrograms map[string]func()

func cmdFifo(ts *testscript.TestScript, _ bool, args []string) { ts.Fatalf("there are no fifos here") }
