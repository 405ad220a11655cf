// What the tests need of pi and its RPC mode does not have: to move in the tree as /tree does.
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export default function (pi: ExtensionAPI) {
	pi.registerCommand("goto", {
		description: "move to an entry",
		handler: async (args, ctx) => {
			const [id, summarize] = args.split(" ");
			const r = await ctx.navigateTree(id, { summarize: summarize === "summarize" });
			ctx.ui.notify(`goto ${r.cancelled ? "cancelled" : "done"} ${ctx.sessionManager.getLeafId()}`, "info");
		},
	});
}
