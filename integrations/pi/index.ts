/**
 * File snapshots for pi: every turn leaves a step-snapshot in the session, and
 * files go back and forth with the conversation. The work is done by `snapctl
 * rpc`; see docs/integrations/pi.md.
 */
import type { ExtensionAPI, ExtensionCommandContext, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { Engine, type EngineError, HUNG, WAS_HUNG } from "./engine.ts";
import { count, describe, doesSomething, head, isEmpty, type LogEntry, names, oneLine, pathsOf, plain, readable, type Restored, type Step } from "./text.ts";

/** Tools of pi that change no file. What changes while they run is the user's. */
const READERS = new Set(["read", "grep", "find", "ls"]);

/** Tools of pi that say in their input which file they write. */
const WRITERS = new Set(["write", "edit"]);

/** What is to become of the files when the conversation moves. */
interface Choice {
	files: boolean;
	onDirty: "merge" | "overwrite";
	acrossHead: boolean;
}

/** A move of the conversation to an entry. */
interface Move {
	target: string;
	choice: Choice;
}

const CONVERSATION: Choice = { files: false, onDirty: "merge", acrossHead: false };

const BOTH = "Files and conversation";
const FILES = "Files only";
const ONLY = "Only the file changes of this prompt, and keep later ones";
const TALK = "Conversation only";
const CANCEL = "Cancel";

/** A choice that also overwrites what the user has edited. */
const overwriting = (choice: string, r: Restored): string => `${choice}, and overwrite my edits to ${count(r.skipped.length, "file")}`;

/** Why files stay where pi keeps no log. */
const NO_LOG = "Without a session file (--no-session) files cannot go back with the conversation; 'snapctl restore turn:N' takes them back.";

/** Codes of errors of which the store is the cause. */
const DAMAGE = new Set(["corrupt", "not_found", "damaged"]);

/** What /rewind calls them where it is not to ask. */
const NAMED = new Map([
	["both", BOTH],
	["files", FILES],
	["conversation", TALK],
	["only", ONLY],
]);

const BUSY = "the agent is at work: try again when it is idle";

/** How long the end of a turn is waited for that the user has stopped, or when pi ends. */
const STOPPED_MS = 5000;

/** How long pi may take to draw the conversation after a move. */
const REDRAWN_MS = 100;

/** How long a question waits for what it is about. */
const PREVIEW_MS = 30_000;

const DIFF_LINES = 200;
const PROMPTS = 50;

export default function (pi: ExtensionAPI) {
	let engine: Engine | undefined;
	let sessionId = "";
	let begun: Promise<void> | undefined; // that the first look has been taken, or why not is known
	let off = ""; // why the session has no snapshots
	let coverage = ""; // what was left out, as of the last look
	let turns = 0; // begun
	let inTurn = false;
	let here: ExtensionContext; // of the last event
	let over = false; // the session: no engine is started for events that are late
	let replaced = false; // an engine that hung, since the last prompt or command
	let prompt: string | undefined; // of the run that begins
	let atWork = false; // the agent; what pi calls idle differs between releases
	let made: Move | undefined; // a choice, before the conversation moves
	let move: Move | undefined; // under way
	let moved: string | undefined; // new leaf of which the log does not know
	let back: { from: string; entry: string } | undefined; // the last move of files and conversation
	let forth: { at: string | null; entry: string } | undefined; // one that was taken back, and where that has led
	let cutOff: { at: string | null; step: Step } | undefined; // a turn of which the log has no step yet, and the log's leaf then
	const tools = new Map<string, string | undefined>(); // under way, and what they write
	const warned = new Set<string>();
	const failing = new Set<string>(); // what has failed since a turn was recorded

	/** Shows a warning, once. */
	function warn(ctx: ExtensionContext, text: string) {
		if (warned.has(text)) return;
		warned.add(text);
		show(ctx, text, "warning");
	}

	/** Shows a text to the user. */
	function show(ctx: ExtensionContext, text: string, type: "info" | "warning" | "error") {
		try {
			if (ctx.hasUI) ctx.ui.notify(text, type);
			else console.error(text);
		} catch {
			// The session has been replaced: pi lets its context do nothing.
		}
	}

	/** Says in pi's footer how the snapshots are; nothing: as they should be. */
	function status(ctx: ExtensionContext, text?: string) {
		try {
			ctx.ui.setStatus("filestore", text);
		} catch {
			// as above
		}
	}

	/** Does what belongs to an event of pi, which goes on whatever comes of it. It says whether it was done. */
	async function attempt(ctx: ExtensionContext, what: string, fn: () => Promise<unknown>): Promise<boolean> {
		try {
			await fn();
			return true;
		} catch (err) {
			if (isHung(err)) warn(ctx, WAS_HUNG);
			else if (!off && !failing.has(what)) show(ctx, `${what}: ${(err as Error).message}`, "warning");
			failing.add(what);
			return false;
		}
	}

	/** Whether an engine was asked that hung, and so was ended. */
	function isHung(err: unknown): boolean {
		return (err as EngineError).code === HUNG;
	}

	/** Waits for something, but when a signal says stop no longer than so many ms. */
	async function unlessStopped<T>(signal: AbortSignal | undefined, p: Promise<T>, grace = 0): Promise<T> {
		if (!signal) return p;
		let timer: NodeJS.Timeout | undefined;
		let stop = () => {};
		const stopped = new Promise<never>((_, reject) => {
			stop = () => {
				timer = setTimeout(() => reject(new Error("the agent was stopped before it was recorded")), grace);
			};
			if (signal.aborted) stop();
			else signal.addEventListener("abort", stop, { once: true });
		});
		try {
			return await Promise.race([p, stopped]);
		} finally {
			signal.removeEventListener("abort", stop);
			clearTimeout(timer);
		}
	}

	/** Waits for a look at the directory until the agent is stopped: the turn's end, which is asked for next, says what came of it. */
	async function unlessLeft(ctx: ExtensionContext, asked: Promise<unknown>): Promise<void> {
		await unlessStopped(ctx.signal, asked).catch((err) => {
			if (!ctx.signal?.aborted) throw err;
		});
	}

	/** Waits for something, but no longer than so many ms. */
	async function within<T>(ms: number, p: Promise<T>): Promise<T> {
		let timer: NodeJS.Timeout | undefined;
		const late = new Promise<never>((_, reject) => {
			timer = setTimeout(() => reject(new Error(`snapctl has not answered for ${ms / 1000} s`)), ms);
		});
		try {
			return await Promise.race([p, late]);
		} finally {
			clearTimeout(timer);
		}
	}

	/**
	 * Starts the engine and the session, unless they run. The first look at the directory may take
	 * seconds: nobody waits for it. What is open goes on in an engine that replaces another. Of those
	 * that hang one with each prompt or command is replaced.
	 */
	function start(ctx: ExtensionContext) {
		here = ctx;
		if (over || (engine && !engine.ended && !off)) return;
		if (engine?.hung && replaced) return;
		replaced ||= engine?.hung ?? false;
		const resume = engine !== undefined;
		try {
			if (!engine || engine.ended) engine = new Engine(process.env.BOO_SNAPCTL || "snapctl", ctx.cwd);
		} catch (err) {
			off = `No file snapshots: ${(err as Error).message}`;
			warn(ctx, off);
			return;
		}
		off = "";
		status(ctx, "first file snapshot…");
		sessionId = ctx.sessionManager.getSessionId();
		const file = ctx.sessionManager.getSessionFile();
		const asked = engine;
		begun = asked.request("initialize", { sessionId, cwd: ctx.cwd, toolWindows: true, resume, ...(file ? { sessionFile: file } : { ownLog: true }) }).then(
			(look) => {
				status(ctx);
				void looked(ctx, look);
				if (look.data?.interrupted) tellCutOff(ctx, look.data);
			},
			(err) => {
				if (asked.hung) return; // it is said where it matters
				off = `No file snapshots: ${err.message}`;
				warn(ctx, off);
				status(ctx, "no file snapshots");
			},
		);
	}

	/** Tells the user of a turn in which pi has ended. */
	function tellCutOff(ctx: ExtensionContext, step: Step) {
		cutOff = { at: ctx.sessionManager.getLeafId(), step };
		const paths = [...pathsOf(step.contested), ...pathsOf(step.diff)];
		show(ctx, `The last turn was cut off. It is not known whether you or the agent changed ${count(paths.length, "file")} since it began, so a rewind leaves them as they are: ${names(paths)}`, "warning");
	}

	/** Says what went wrong, and what can be done about it. */
	function reason(err: unknown): string {
		const { message, code } = err as EngineError;
		return DAMAGE.has(code) ? `${message}. The store of snapshots is damaged: run 'snapctl check' in ${process.cwd()}` : message;
	}

	/** Asks the engine about the session; if that ends meanwhile, the next one. */
	async function ask(type: string, params: object = {}): Promise<any> {
		const asked = engine;
		if (!asked) throw new Error("the session has not begun");
		const request = { ...params, sessionId };
		return asked.request(type, request).catch((err) => {
			if (!engine || over || !asked.ended || !asked.heard) throw err;
			if (asked.hung) warn(here, WAS_HUNG);
			start(here);
			return engine.request(type, request);
		});
	}

	/** Takes note of what a look at the directory has left out. */
	async function looked(ctx: ExtensionContext, look?: { coverageHash?: string; partial: boolean }): Promise<void> {
		if (look?.partial) warn(ctx, "This turn's snapshot is incomplete: a size limit was reached. 'snapctl coverage' lists the files that are missing.");
		if (!look?.coverageHash || look.coverageHash === coverage) return;
		coverage = look.coverageHash;
		await attempt(ctx, "The list of files that are left out of snapshots could not be read", async () => {
			const list = await ask("get_coverage", { coverageHash: coverage, reasons: ["unreadable", "unstable", "too-large", "budget"], limit: 200 });
			const paths = list.omissions.map((o: { path: string; reason: string }) => `${o.path} (${o.reason})`);
			if (list.nextCursor) paths.push("…");
			if (paths.length > 0) warn(ctx, `Not in snapshots, and so not restored: ${names(paths)}`);
		});
	}

	/** Whether a step belongs where the conversation stands. One that is late may be of a branch that was left. */
	function isHere(ctx: ExtensionContext, step: LogEntry["data"]): boolean {
		return !step.late || !step.aboveEntryId || ctx.sessionManager.getBranch().some((e) => e.id === step.aboveEntryId);
	}

	/** Appends to the session's log what the engine has for it, and returns the last entry's ID. */
	function append(ctx: ExtensionContext, entries: LogEntry[]): string | undefined {
		let entryId: string | undefined;
		for (const { customType, data } of entries) {
			pi.appendEntry(customType, data);
			entryId = ctx.sessionManager.getLeafId() ?? undefined;
			const told = { snapshotSeq: data.snapshotSeq, entryId };
			void attempt(ctx, "A snapshot could not be linked to its place in the conversation", () => ask("told", told));
		}
		return entryId;
	}

	async function endTurn(ctx: ExtensionContext): Promise<void> {
		if (!inTurn) return;
		inTurn = false;
		tools.clear();
		const done = await attempt(ctx, "No snapshot of this turn", async () => {
			const r = await unlessStopped(ctx.signal, ask("turn_end"), STOPPED_MS);
			append(
				ctx,
				r.entries.filter((e: LogEntry) => isHere(ctx, e.data)),
			);
			void looked(ctx, r);
			if (r.health) warn(ctx, `The store of snapshots: ${r.health}`);
			if (r.secrets) warn(ctx, `In snapshots, and they seem to hold secrets: ${names(r.secrets)}. A line in .booignore leaves a file out, then 'snapctl forget PATH' removes it.`);
		});
		if (done) failing.clear();
		if (!off) status(ctx, done ? undefined : "no file snapshot of the last turn");
	}

	async function endTool(ctx: ExtensionContext, id: string, how: { refused?: boolean; isError?: boolean }): Promise<void> {
		if (!tools.has(id)) return;
		const path = tools.get(id);
		tools.delete(id);
		if (path && !how.refused && !how.isError) {
			ask("claim", { paths: [path] }).catch(() => {}); // outside of the directory, for one
		}
		await attempt(ctx, "No snapshot after a tool", () => unlessLeft(ctx, ask("tool_end", { tool: id, refused: how.refused })));
	}

	pi.on("session_start", async (_event, ctx) => {
		over = false;
		start(ctx);
	});

	pi.on("before_agent_start", async (event) => {
		replaced = false;
		prompt = "prompt" in event ? event.prompt : undefined;
	});

	pi.on("agent_start", async () => {
		atWork = true;
	});

	pi.on("turn_start", async (event, ctx) => {
		await endTurn(ctx); // a retry starts again without an end
		start(ctx);
		inTurn = true;
		const turn = ++turns;
		// Each call of the model is a turn of pi's; a prompt is one of ours.
		const params = { runtimeTurnIndex: event.turnIndex, continues: event.turnIndex > 0, agent: "pi", model: ctx.model?.id, ...(event.turnIndex > 0 ? {} : { title: prompt?.slice(0, 4096) }), ...(moved ? { leaf: moved } : {}) };
		moved = undefined;
		void attempt(ctx, "No snapshot before this turn", () => ask("turn_start", params)).then((done) => {
			if (!done && turn === turns) inTurn = false;
		}); // the first tool waits for it
	});

	// Without a handler of this event pi 0.73 does not wait for those of turn_end.
	pi.on("tool_call", async (event, ctx) => {
		if (!inTurn || off || READERS.has(event.toolName)) return;
		const path = WRITERS.has(event.toolName) ? (event.input as { path?: unknown }).path : undefined;
		tools.set(event.toolCallId, typeof path === "string" && !/^[~@]/.test(path) ? path : undefined);
		await attempt(ctx, "No snapshot before a tool", () => unlessLeft(ctx, ask("tool_start", { tool: event.toolCallId })));
	});

	pi.on("tool_result", async (event, ctx) => endTool(ctx, event.toolCallId, event));
	// A call that another extension has blocked, after asking the user perhaps, ends without a result.
	pi.on("tool_execution_end", async (event, ctx) => endTool(ctx, event.toolCallId, { refused: true }));
	pi.on("turn_end", async (_event, ctx) => endTurn(ctx));
	pi.on("agent_end", async (_event, ctx) => {
		await endTurn(ctx);
		atWork = false;
	});

	pi.on("session_shutdown", async (_event, ctx) => {
		await within(STOPPED_MS, endTurn(ctx)).catch(() => {});
		over = true;
		await engine?.close();
		engine = undefined;
	});

	/** Asks what is to become of the files when the conversation moves; nothing: it is not to move. */
	async function choose(ctx: ExtensionContext, target: string, signal: AbortSignal): Promise<Choice | undefined> {
		let preview: Restored;
		if (!ctx.sessionManager.getSessionFile()) {
			warn(ctx, NO_LOG);
			return CONVERSATION;
		}
		try {
			start(ctx);
			const asked = ask("navigate_tree", { target, preview: true });
			preview = (await unlessStopped(signal, within(PREVIEW_MS, asked))).restore;
		} catch (err) {
			const why = `Files cannot be taken back: ${reason(err)}`;
			if (!ctx.hasUI || off) {
				warn(ctx, why);
				return CONVERSATION;
			}
			return (await ctx.ui.select(why, [TALK, CANCEL])) === TALK ? CONVERSATION : undefined;
		}
		if (isEmpty(preview)) return CONVERSATION;
		if (!ctx.hasUI) return { files: true, onDirty: "merge", acrossHead: false };
		const bothOver = overwriting(BOTH, preview);
		const answer = await ctx.ui.select(question(preview), [...(doesSomething(preview) ? [BOTH] : []), ...(preview.skipped.length > 0 ? [bothOver] : []), TALK, CANCEL]);
		if (answer === TALK) return CONVERSATION;
		if (answer !== BOTH && answer !== bothOver) return undefined;
		return { files: true, onDirty: answer === BOTH ? "merge" : "overwrite", acrossHead: true };
	}

	function question(preview: Restored): string {
		const more = preview.headChanged ? "\nNote: git has another commit checked out than at that time." : "";
		return describe(preview, true) + more;
	}

	pi.on("session_before_tree", async (event, ctx) => {
		const target = event.preparation.targetId;
		const choice = made?.target === target ? made.choice : await choose(ctx, target, event.signal);
		if (!choice) return { cancel: true };
		if (atWork) {
			show(ctx, BUSY, "error");
			return { cancel: true };
		}
		move = { target, choice };
		return undefined;
	});

	pi.on("session_tree", async (event, ctx) => {
		const now = move;
		move = back = forth = undefined;
		moved = event.newLeafId ?? undefined;
		if (!now?.choice.files) return;
		await attempt(ctx, "The files were not restored", async () => {
			const { onDirty, acrossHead } = now.choice;
			const r: Restored & { restore: Restored } = await ask("navigate_tree", { target: now.target, onDirty, acrossHead });
			const entry = append(ctx, r.entries);
			if (entry) {
				moved = undefined;
				if (event.oldLeafId) back = { from: event.oldLeafId, entry };
			}
			setTimeout(() => tell(ctx, r.restore), REDRAWN_MS); // pi draws the conversation anew first
		});
	});

	function tell(ctx: ExtensionContext, r: Restored) {
		const left = r.skipped.length + (r.failed?.length ?? 0) + (r.kept?.length ?? 0) + (r.conflicts?.length ?? 0);
		show(ctx, describe(r), left > 0 ? "warning" : "info");
	}

	/** What the user has asked for, newest first, with the files that were changed since. */
	function prompts(ctx: ExtensionContext): { id: string; line: string }[] {
		const list: { id: string; line: string }[] = [];
		const changed = new Set<string>();
		const doubtful = new Set<string>(); // of which nobody knows who has changed them
		let atLeast = "";
		let turn = ""; // that the next prompt has begun, if it has changed something
		const add = (step: Step) => {
			if (step.diff?.unknown || step.interrupted) atLeast = "at least ";
			for (const path of pathsOf(step.diff)) changed.add(path);
			for (const path of pathsOf(step.contested)) doubtful.add(path);
			if (step.turnIndex !== undefined) turn = `turn ${step.turnIndex}, `;
		};
		const branch = ctx.sessionManager.getBranch().reverse();
		if (cutOff && (cutOff.at === null || branch.some((e) => e.id === cutOff?.at))) add(cutOff.step);
		const log = ctx.sessionManager.getSessionFile() !== undefined;
		for (const e of branch) {
			if (e.type === "custom" && e.customType === "step-snapshot") add(e.data as Step);
			if (e.type !== "message" || e.message.role !== "user") continue;
			const content = e.message.content;
			const text = typeof content === "string" ? content : content.map((c: { type: string; text?: string }) => c.text ?? "").join(" ");
			const unknown = doubtful.size > 0 ? `, ${doubtful.size} of unknown origin` : "";
			const since = log ? ` (${turn}${atLeast}${count(changed.size, "file")} since${unknown})` : "";
			list.push({ id: e.id, line: `${list.length + 1}. before "${oneLine(text, 60)}"${since}` });
			turn = "";
			if (list.length === PROMPTS) break;
		}
		return list;
	}

	/** Moves the conversation, and the files as was chosen. */
	async function moveTo(ctx: ExtensionCommandContext, target: string, choice: Choice): Promise<void> {
		made = { target, choice };
		try {
			await ctx.navigateTree(target, { summarize: false });
		} finally {
			made = undefined;
		}
	}

	/** Makes a command of pi, whose errors are shown to the user. */
	function command(name: string, description: string, fn: (args: string[], ctx: ExtensionCommandContext, line: string) => Promise<void>) {
		pi.registerCommand(name, {
			description,
			handler: async (args: string, ctx: ExtensionCommandContext) => {
				try {
					await ctx.waitForIdle();
					replaced = false;
					start(ctx);
					await begun;
					await fn(args.split(/\s+/).filter(Boolean), ctx, args.trim());
				} catch (err) {
					show(ctx, `/${name}: ${off || reason(err)}`, "error");
				}
			},
		});
	}

	command("rewind", "Go back to before a prompt, or take back only what one did", async (args, ctx) => {
		let target = args[0];
		if (!target) {
			const list = prompts(ctx);
			if (list.length === 0) {
				show(ctx, "Nothing to go back to yet", "info");
				return;
			}
			const line = await ctx.ui.select(
				"Go back to",
				list.map((p) => p.line),
			);
			target = list.find((p) => p.line === line)?.id ?? "";
			if (!target) return;
		}
		const named = NAMED.get(args[1] ?? "");
		const overwrite = args[2] === "overwrite";
		const talkOnly = async (why: string) => {
			if (named === FILES || named === ONLY) throw new Error(why);
			if (named) show(ctx, why, "warning");
			if (named || (await ctx.ui.select(why, [TALK, CANCEL])) === TALK) await moveTo(ctx, target, CONVERSATION);
		};
		if (!ctx.sessionManager.getSessionFile()) return talkOnly(NO_LOG);
		let preview: Restored;
		try {
			preview = (await ask("navigate_tree", { target, preview: true })).restore;
		} catch (err) {
			if (!DAMAGE.has((err as EngineError).code)) throw err;
			return talkOnly(`Files cannot be taken back: ${reason(err)}`);
		}
		// Of the newest prompt it is what going back to before it does.
		const isNewest = prompts(ctx)[0]?.id === target;
		const only: Restored | undefined = named || isNewest ? undefined : await ask("revert_preview", { turns: [target] }).catch(() => undefined);
		const [bothOver, filesOver] = [overwriting(BOTH, preview), overwriting(FILES, preview)];
		const options = [
			...(doesSomething(preview) ? [BOTH, FILES] : []),
			...(only && doesSomething(only) ? [ONLY] : []),
			...(preview.skipped.length > 0 ? [bothOver, filesOver] : []),
			TALK,
		];
		const answer = named ?? (await ctx.ui.select(question(preview), [...options, CANCEL]));
		if (answer === ONLY && only && !(await ctx.ui.confirm(ONLY, describe(only, true)))) return;
		const onDirty = overwrite || answer === bothOver || answer === filesOver ? "overwrite" : "merge";
		if (atWork) throw new Error(BUSY);
		if (answer === FILES || answer === filesOver) {
			const r: Restored = await ask("restore", { target, onDirty, acrossHead: true });
			append(ctx, r.entries);
			tell(ctx, r);
		} else if (answer === ONLY) {
			const r: Restored = await ask("revert", { turns: [target], onDirty });
			append(ctx, r.entries);
			tell(ctx, r);
		} else if (answer && answer !== CANCEL) {
			await moveTo(ctx, target, answer === TALK ? CONVERSATION : { files: true, onDirty, acrossHead: true });
		}
	});

	for (const [name, description] of [
		["undo", "Take back the last restore of files"],
		["redo", "Take back the last undo"],
	]) {
		command(name, description, async (args, ctx) => {
			const r: Restored = await ask(name, { onDirty: args[0] === "overwrite" ? "overwrite" : "merge" });
			const here = ctx.sessionManager.getLeafId();
			const to = name === "undo" ? (back?.entry === here ? back.from : undefined) : forth?.at === here ? forth?.entry : undefined;
			append(ctx, r.entries);
			if (!to) {
				tell(ctx, r);
				return;
			}
			const also = name === "undo" ? "Move the conversation back, too?" : "Move the conversation again, too?";
			const said = isEmpty(r) ? "No file would change." : describe(r);
			if (!(await ctx.ui.confirm(name === "undo" ? "Undo" : "Redo", `${said}\n${also}`))) {
				if (!isEmpty(r)) tell(ctx, r);
				return;
			}
			const from = ctx.sessionManager.getLeafId();
			const entry = name === "undo" ? (here ?? "") : to;
			await moveTo(ctx, to, CONVERSATION);
			if (name === "undo") forth = { at: ctx.sessionManager.getLeafId(), entry };
			else if (from) back = { from, entry };
			if (!isEmpty(r)) setTimeout(() => tell(ctx, r), REDRAWN_MS); // pi draws the conversation anew first
		});
	}

	command("changes", "Files that this session has changed", async (_args, ctx) => {
		const list = await ask("get_modified_files");
		const lines = list.files.map((f: { netStatus: string; path: string }) => `${f.netStatus.padEnd(8)} ${plain(f.path)}`);
		show(ctx, head(lines.join("\n") || "No file was changed in this session.", DIFF_LINES), "info");
	});

	command("diff", "Show the changes of this session in a file", async (_args, ctx, line) => {
		let path = line;
		if (!path) {
			const list = await ask("get_modified_files");
			if (list.files.length === 0) {
				show(ctx, "No file was changed in this session.", "info");
				return;
			}
			const shown: string[] = list.files.map((f: { path: string }) => plain(f.path));
			const chosen = await ctx.ui.select("Diff of", shown);
			if (!chosen) return;
			path = list.files[shown.indexOf(chosen)].path;
		}
		const { file } = await ask("get_file_diff", { path });
		const colour = process.stdout.isTTY && !process.env.NO_COLOR;
		const text = !file ? "no such file, neither at the session's start nor now" : file.binary ? "binary" : file.unifiedDiff ? readable(file.unifiedDiff, colour) : "nothing was changed";
		show(ctx, head(`${plain(path)}: ${text.includes("\n") ? "\n" : ""}${text}`, DIFF_LINES), "info");
	});
}
