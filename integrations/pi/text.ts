/** A path of a restore, and what was done to it, or would be. */
export interface Item {
	path: string;
	action: "unchanged" | "restored" | "deleted" | "skipped" | "kept" | "failed";
	reason?: string;
	dir?: boolean;
}

/** What a restore did, or would do: of manager.RestoreResult what is shown. */
export interface Restored {
	restored: string[];
	deleted: string[];
	merged?: { path: string }[];
	conflicts?: { path: string }[];
	skipped: string[];
	kept?: string[];
	failed?: string[];
	notCaptured?: string[];
	made?: string[];
	items: Item[];
	turnsPutBack?: number[];
	undoes?: object;
	differing?: number;
	headChanged?: boolean;
	entries: LogEntry[];
}

/** An entry for the session's log. */
export interface LogEntry {
	customType: string;
	data: Step;
}

/** A turn's step: of manager.StepSnapshotData what is used. */
export interface Step {
	snapshotSeq: number;
	turnIndex?: number;
	late?: boolean;
	aboveEntryId?: string;
	interrupted?: boolean;
	diff?: Diff | null;
	contested?: Diff | null;
}

/** Paths that a turn has changed. */
export interface Diff {
	added: string[];
	modified: string[];
	deleted: string[];
	unknown?: string;
}

/** All paths of a diff. */
export function pathsOf(d: Diff | null | undefined): string[] {
	return d ? [...d.added, ...d.modified, ...d.deleted] : [];
}

const SHOWN = 8;

/** Counts things: "1 file", "3 files". */
export function count(n: number, thing: string, things = `${thing}s`): string {
	return `${n} ${n === 1 ? thing : things}`;
}

/** A text without what would act on a terminal, or look like a line of ours. */
export function plain(text: string): string {
	return text.replace(/[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Names a list of paths, the first few of a long one. */
export function names(paths: string[]): string {
	const more = paths.length - SHOWN;
	return paths.slice(0, SHOWN).map(plain).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** Names turns, in order: "Turn 3", "Turns 1, 3 to 7". */
function turnList(turns: number[]): string {
	const parts: string[] = [];
	for (let i = 0, j = 0; i < turns.length; i = j + 1) {
		for (j = i; turns[j + 1] === turns[j] + 1; ) j++;
		parts.push(j === i ? `${turns[i]}` : j === i + 1 ? `${turns[i]}, ${turns[j]}` : `${turns[i]} to ${turns[j]}`);
	}
	return `${turns.length === 1 ? "Turn" : "Turns"} ${parts.join(", ")}`;
}

/** Whether a restore has changed something, or would. */
export function doesSomething(r: Restored): boolean {
	return r.restored.length + r.deleted.length + (r.made?.length ?? 0) > 0;
}

/** Whether a restore has, or had, nothing to say. */
export function isEmpty(r: Restored): boolean {
	return r.items.every((it) => it.action === "unchanged") && !r.notCaptured?.length;
}

/** Says what a restore did, or (would) what it would do, in a few lines. */
export function describe(r: Restored, would = false): string {
	const lines: string[] = [];
	const dirs = new Set(r.items.filter((it) => it.dir).map((it) => it.path));
	const say = (list: string[] | undefined, did: string, does: string) => {
		if (!list?.length) return;
		const files = list.filter((p) => !dirs.has(p));
		const others = list.filter((p) => dirs.has(p)).map((p) => `${p}/`);
		const counts = [files.length > 0 ? count(files.length, "file") : "", others.length > 0 ? count(others.length, "directory", "directories") : ""];
		lines.push(`${would ? does : did} ${counts.filter(Boolean).join(" and ")}: ${names([...files, ...others])}`);
	};
	const merged = (r.merged ?? []).map((m) => m.path);
	say(
		r.restored.filter((p) => !merged.includes(p)),
		"Restored",
		"Would restore",
	);
	if (merged.length > 0) {
		const stays = `later edits in ${merged.length === 1 ? "it" : "them"} stay`;
		lines.push(`${would ? "Would merge" : "Merged"} ${count(merged.length, "file")} (${stays}): ${names(merged)}`);
	}
	say(r.deleted, "Deleted", "Would delete");
	if (r.made?.length) {
		lines.push(`${would ? "Would make" : "Made"} ${count(r.made.length, "directory", "directories")}: ${names(r.made)}`);
	}
	const part = (r.conflicts ?? []).map((c) => c.path).filter((p) => merged.includes(p));
	if (part.length > 0) {
		lines.push(`${would ? "Would leave" : "Left"} lines in ${count(part.length, "file")} as they are, because they were edited since: ${names(part)}`);
	}
	const left = new Map<string, string[]>(); // by reason
	for (const it of r.items) {
		if (it.action !== "skipped" && it.action !== "kept" && it.action !== "failed") continue;
		const why = it.reason ?? it.action;
		left.set(why, [...(left.get(why) ?? []), it.path]);
	}
	if (r.notCaptured?.length) left.set("its content was never recorded", r.notCaptured);
	for (const [why, paths] of left) {
		lines.push(`${would ? "Would leave" : "Left"} ${count(paths.length, "path")} as ${paths.length === 1 ? "it is" : "they are"}: ${plain(why)}`);
		for (const p of paths.slice(0, SHOWN)) lines.push(`    ${plain(p)}`);
		if (paths.length > SHOWN) lines.push(`    and ${paths.length - SHOWN} more`);
	}
	const turns = r.turnsPutBack ?? [];
	if (turns.length > 0 && !r.undoes) {
		// what an undo puts back is what it is for
		const one = turns.length === 1;
		lines.push(`${turnList(turns)}, which ${one ? "was" : "were"} taken back before, ${would ? "would be" : one ? "was" : "were"} put back.`);
	}
	if (lines.length === 0) {
		lines.push(r.differing ? `Nothing to take back: the agent changed no file since. ${count(r.differing, "path")} ${r.differing === 1 ? "differs" : "differ"}, which you, another session, a restore or an undo changed.` : "Nothing to do: the files are like that already.");
	}
	return lines.join("\n");
}

/** Shortens a text to a line. */
export function oneLine(text: string, width: number): string {
	const line = text.replace(/\s+/g, " ").trim();
	return line.length > width ? `${line.slice(0, width - 1)}…` : line;
}

/** The first lines of a text, and how many are left out. */
export function head(text: string, lines: number): string {
	const all = text.replace(/\n$/, "").split("\n");
	if (all.length <= lines) return all.join("\n");
	return `${all.slice(0, lines).join("\n")}\n… ${all.length - lines} more lines`;
}

/** A unified diff as a person reads it: without what names the file, in colour if wanted. */
export function readable(diff: string, colour: boolean): string {
	const paint = (code: number, line: string) => (colour ? `\u001b[${code}m${line}\u001b[39m` : line);
	const lines: string[] = [];
	let inHunk = false;
	for (const line of diff.replace(/\n$/, "").split("\n")) {
		inHunk ||= line.startsWith("@@");
		if (!inHunk && /^(diff --git|index|---|\+\+\+) /.test(line)) continue;
		const text = plain(line);
		if (line.startsWith("@@")) lines.push(paint(36, text));
		else if (line.startsWith("+")) lines.push(paint(32, text));
		else if (line.startsWith("-")) lines.push(paint(31, text));
		else lines.push(text);
	}
	return lines.join("\n");
}
