// An extension that asks before the write tool runs.
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export default function (pi: ExtensionAPI) {
	pi.on("tool_call", async (event, ctx) => {
		if (event.toolName !== "write") return undefined;
		const ok = await ctx.ui.confirm("Allow", `write?`);
		return ok ? undefined : { block: true, reason: "no" };
	});
}
