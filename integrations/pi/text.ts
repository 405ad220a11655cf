/** A path of a restore, and what was done to it, or would be. */
export interface Item {
	path: string;
	action: "unchanged" | "restored" | "deleted" | "skipped" | "kept" | "failed";
	reason?: string;
}

/** What a restore did, or would do: of manager.RestoreResult what is shown. */
export interface Restored {
	restored: string[];
	deleted: string[];
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
	data: { snapshotSeq: number; late?: boolean; aboveEntryId?: string };
}

const SHOWN = 8;

/** Counts things: "1 file", "3 files". */
export function count(n: number, thing: string): string {
	return `${n} ${thing}${n === 1 ? "" : "s"}`;
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

/** Whether a restore has, or had, nothing to say. */
export function isEmpty(r: Restored): boolean {
	return r.items.every((it) => it.action === "unchanged") && !r.notCaptured?.length;
}

/** Says what a restore did, or (would) what it would do, in a few lines. */
export function describe(r: Restored, would = false): string {
	const lines: string[] = [];
	const say = (list: string[] | undefined, did: string, does: string) => {
		if (list?.length) lines.push(`${would ? does : did} ${count(list.length, "file")}: ${names(list)}`);
	};
	say(r.restored, "Restored", "Would restore");
	say(r.deleted, "Deleted", "Would delete");
	if (r.made?.length) {
		const directories = r.made.length === 1 ? "1 directory" : `${r.made.length} directories`;
		lines.push(`${would ? "Would make" : "Made"} ${directories}: ${names(r.made)}`);
	}
	const left: string[] = [];
	for (const it of r.items) {
		if (it.action === "skipped" || it.action === "kept" || it.action === "failed") left.push(`${plain(it.path)}: ${it.reason ?? it.action}`);
	}
	if (left.length > 0) lines.push(`${would ? "Would leave" : "Left"} as ${left.length === 1 ? "it is" : "they are"}: ${names(left)}`);
	say(r.notCaptured, "Not known, so left alone:", "Not known, so left alone:");
	const turns = r.turnsPutBack ?? [];
	if (turns.length > 0 && !r.undoes) {
		// what an undo puts back is what it is for
		const one = turns.length === 1;
		lines.push(`${turnList(turns)}, taken back before, ${would ? "would be" : one ? "is" : "are"} in again.`);
	}
	if (lines.length === 0) {
		lines.push(r.differing ? `Nothing to do: the ${count(r.differing, "file")} that differ were changed by others.` : "Nothing to do: the files are so already.");
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
