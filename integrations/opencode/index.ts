/**
 * File snapshots for opencode: what each turn of a session does to files is recorded,
 * and goes back. The work is done by `snapctl rpc`; see docs/integrations/opencode.md.
 */
import { Engine, type EngineError, HUNG, WAS_HUNG } from "../pi/engine.ts";
import { describe, plain, type Restored } from "../pi/text.ts";

/** Tools of opencode that change no file. Those of a subagent (task) are told of one by one. */
const READERS = new Set(["read", "grep", "glob", "list", "lsp", "webfetch", "websearch", "codesearch", "todoread", "todowrite", "question", "skill", "plan_enter", "plan_exit", "task", "invalid"]);

/** Tools of opencode that say in their arguments which file they write. */
const WRITERS = new Set(["write", "edit", "multiedit"]);

/** How long a tool waits for a look at the directory, before it and after it. */
const LOOK_MS = 25_000;

/** What opencode gives a plugin, as far as it is used here. */
interface Input {
	client: any;
	directory: string;
	worktree: string;
}

interface Call {
	session: string;
	path?: string;
}

/** What a command has the model say. */
const SAY = "This is for the user, who has asked for it by a command. Call no tool, and repeat it as it is.\n\n";

export const FileSnapshots = async ({ client, directory, worktree }: Input) => {
	const root = worktree && worktree !== "/" ? worktree : directory;
	let engine: Engine | undefined;
	const begun = new Map<string, Engine>(); // by session: the engine that knows it, or knew it
	const turns = new Set<string>(); // sessions whose turn is open
	const parents = new Map<string, string>(); // of sessions of subagents
	const calls = new Map<string, Call>(); // tools under way
	const warned = new Set<string>();
	let silent = false; // the engine was waited for in vain, and has answered nothing since
	let replaced = false; // one that hung, since the last prompt or command

	/** Shows a warning, once. */
	function warn(message: string) {
		if (warned.has(message)) return;
		warned.add(message);
		client.app.log({ body: { service: "snapctl", level: "warn", message } }).catch(() => {});
		client.tui.showToast({ body: { message, variant: "warning" } }).catch(() => {}); // where there is a terminal
	}

	/** The session to which what a session does is booked. */
	function top(session: string): string {
		for (let up = parents.get(session); up; up = parents.get(session)) session = up;
		return session;
	}

	/**
	 * The engine, to which the session is known. One that has ended is replaced, and what is open in
	 * sessions goes on in the next; of engines that hang one with each prompt or command is.
	 */
	function begin(session: string): Engine {
		if (!engine || (engine.ended && !(engine.hung && replaced))) {
			replaced ||= engine?.hung ?? false;
			engine = new Engine(process.env.BOO_SNAPCTL || "snapctl", root);
		}
		const asked = engine;
		if (begun.get(session) !== asked) {
			const of = { cwd: root, toolWindows: true, ownLog: true, resume: begun.has(session) };
			begun.set(session, asked);
			asked.request("initialize", { ...of, sessionId: session }).catch((err) => {
				if (asked.hung) return; // it is said where it matters
				if (begun.get(session) === asked) begun.delete(session);
				warn(`No file snapshots: ${err.message}`);
			});
		}
		return asked;
	}

	/** Asks the engine about a session; if that ends meanwhile, the next one. */
	async function ask(session: string, type: string, params: object = {}): Promise<any> {
		const request = { ...params, sessionId: session };
		const asked = begin(session);
		try {
			return await asked.request(type, request).catch((err) => {
				if (!asked.ended || !asked.heard) throw err;
				if (asked.hung) warn(WAS_HUNG);
				return begin(session).request(type, request);
			});
		} finally {
			silent = false;
		}
	}

	/** Does what belongs to an event of opencode, which goes on whatever comes of it. */
	async function attempt(what: string, fn: () => Promise<unknown>) {
		try {
			await fn();
		} catch (err) {
			if ((err as EngineError).code === HUNG) warn(WAS_HUNG);
			else if (begun.size > 0) warn(`${what}: ${(err as Error).message}`);
		}
	}

	/** Waits for a look at the directory, but for an engine that is late only once. */
	async function look(asked: Promise<unknown>) {
		if (silent) {
			asked.catch(() => {});
			return;
		}
		let timer: ReturnType<typeof setTimeout> | undefined;
		const late = new Promise<never>((_, reject) => {
			timer = setTimeout(() => {
				silent = true;
				reject(new Error(`snapctl has not answered for ${LOOK_MS / 1000} s; tools no longer wait for it`));
			}, LOOK_MS);
		});
		try {
			await Promise.race([asked, late]);
		} finally {
			clearTimeout(timer);
		}
	}

	async function endTurn(session: string) {
		if (!turns.delete(session)) return;
		for (const [id, call] of calls) if (call.session === session) calls.delete(id);
		await attempt("No snapshot of this turn", async () => {
			const r = await ask(session, "turn_end");
			if (r.partial) warn("This turn's snapshot is incomplete: a size limit was reached. 'snapctl coverage' lists the files that are missing.");
			if (r.health) warn(`The store of snapshots: ${r.health}`);
			if (r.secrets) warn(`In snapshots, and they seem to hold secrets: ${r.secrets.join(", ")}. A line in .booignore leaves a file out, then 'snapctl forget PATH' removes it.`);
		});
	}

	/** Begins a turn. Nobody waits for it: the first tool does. */
	function startTurn(session: string, of: object) {
		const asked = ask(session, "turn_start", { agent: "opencode", ...of });
		turns.add(session);
		void attempt("No snapshot before this turn", () => asked);
	}

	async function endTool(id: string, how: { refused?: boolean; failed?: boolean } = {}) {
		const call = calls.get(id);
		if (!call) return;
		calls.delete(id);
		if (call.path && !how.refused && !how.failed) {
			ask(call.session, "claim", { paths: [call.path] }).catch(() => {}); // outside of the directory, for one
		}
		await attempt("No snapshot after a tool", () => look(ask(call.session, "tool_end", { tool: id, refused: how.refused })));
	}

	/** What the commands of this plugin answer; undefined: it is none of them. */
	async function run(command: string, session: string, args: string): Promise<string | undefined> {
		switch (command) {
			case "rewind": {
				const n = args.trim() || "1";
				const turns = n.split(/\s+/); // by name: those that came after them stay
				const named = turns.every((t) => /^turn:\d{1,6}$/.test(t));
				if (!named && !/^[1-9]\d{0,5}$/.test(n)) return "usage: /rewind [NUMBER OF TURNS | turn:N ...]";
				const r: Restored = named ? await ask(session, "revert", { turns }) : await ask(session, "restore", { target: `@~${n}` });
				return `${describe(r)}\n/undo-files takes it back.`;
			}
			case "undo-files":
				return describe(await ask(session, "undo"));
			case "changes": {
				const { files } = await ask(session, "get_modified_files");
				const lines = files.map((f: { netStatus: string; path: string }) => `${f.netStatus.padEnd(8)} ${plain(f.path)}`);
				return lines.join("\n") || "No file was changed in this session.";
			}
		}
	}

	return {
		event: async ({ event }: { event: { type: string; properties: any } }) => {
			const p = event.properties;
			if (event.type === "session.created" && p.info.parentID) parents.set(p.info.id, p.info.parentID);
			else if (event.type === "session.idle") await endTurn(p.sessionID); // a subagent's has no turn
			else if (event.type === "message.part.updated" && p.part?.type === "tool" && p.part.state?.status === "error") {
				const refused = /rejected permission|specified a rule/i.test(String(p.part.state.error));
				await endTool(p.part.callID, { refused, failed: true });
			}
		},
		"chat.message": async (input: { sessionID: string }, output: { message: any; parts: any[] }) => {
			const session = input.sessionID;
			if (parents.has(session)) return; // what a subagent is told to do
			await endTurn(session);
			const title = output.parts.flatMap((part) => (part.type === "text" && !part.synthetic ? [part.text] : [])).join("\n");
			if (title.startsWith(SAY)) return; // a command of ours: if the model works all the same, a tool begins a turn
			replaced = false;
			startTurn(session, { title, model: output.message?.model?.modelID });
		},
		"tool.execute.before": async (input: { tool: string; sessionID: string; callID: string }, output: { args: any }) => {
			if (READERS.has(input.tool)) return;
			const session = top(input.sessionID);
			const path = WRITERS.has(input.tool) ? output.args?.filePath : undefined;
			if (!turns.has(session)) startTurn(session, {});
			calls.set(input.callID, { session, path: typeof path === "string" ? path : undefined });
			await attempt("No snapshot before a tool", () => look(ask(session, "tool_start", { tool: input.callID })));
		},
		"tool.execute.after": async (input: { callID: string }) => endTool(input.callID),
		"command.execute.before": async (input: { command: string; sessionID: string; arguments: string }, output: { parts: any[] }) => {
			let text: string | undefined;
			replaced = false;
			try {
				text = await run(input.command, top(input.sessionID), input.arguments);
			} catch (err) {
				text = `/${input.command}: ${(err as Error).message}`;
			}
			if (text !== undefined) output.parts.splice(0, output.parts.length, { type: "text", text: SAY + text });
		},
	};
};
