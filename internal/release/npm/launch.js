#!/usr/bin/env node
// Starts the program for this machine. install.js puts the program itself in this place where
// it may, which saves the start of node each time.
"use strict"
const { spawn } = require("node:child_process")
const { constants } = require("node:os")

const name = `@boocode/snapctl-${process.platform}-${process.arch}`
let program
try {
	program = require.resolve(`${name}/bin/snapctl${process.platform === "win32" ? ".exe" : ""}`)
} catch {
	console.error(`snapctl: the package ${name} is not installed`)
	console.error("hint: install @boocode/snapctl again, with optional dependencies, on the machine that is to run it")
	process.exit(6)
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" })
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal))
child.on("error", (error) => {
	console.error(`snapctl: ${error.message}`)
	process.exit(6)
})
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code))
