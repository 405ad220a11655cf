// Puts the programs in the place of the launcher. Where it cannot, as without the right to, or
// on Windows, whose npm starts launchers by node, the launcher stays, and does the same.
"use strict"
const fs = require("node:fs")
const path = require("node:path")

if (process.platform !== "win32") {
	try {
		const from = path.dirname(require.resolve(`@boocode/snapctl-${process.platform}-${process.arch}/package.json`))
		for (const name of ["snapctl-checkpoints", "snapctl"]) {
			const to = path.join(__dirname, "bin", name)
			const beside = `${to}-${process.pid}`
			fs.linkSync(path.join(from, "bin", name), beside)
			fs.renameSync(beside, to)
		}
	} catch {}
}
