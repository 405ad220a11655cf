import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { StringDecoder } from "node:string_decoder";

/** What the engine answers instead of data. The codes are those of docs/reference/rpc.md. */
export class EngineError extends Error {
	constructor(
		message: string,
		readonly code: string,
	) {
		super(message);
	}
}

interface Response {
	id: number;
	type: string;
	success: boolean;
	data?: unknown;
	error?: string;
	code?: string;
}

interface Pending {
	resolve(data: any): void;
	reject(err: Error): void;
}

/** The protocol that this extension speaks. */
const PROTOCOL = 2;

/** How long the engine may give no sign of life while it is asked. It answers a ping at once, whatever it does. */
const SILENT_MS = 700;

/** The same until it has answered for the first time: its program may have to be read. */
const STARTS_MS = 5000;

/** How often it is looked at. */
const TICK_MS = 100;

/** The code of an error: the engine hung, and was ended. Another one can go on. */
export const HUNG = "hung";

/** What the user is told then. */
export const WAS_HUNG = "snapctl rpc, which records file snapshots, stopped answering and was restarted.";

/**
 * A `snapctl rpc` of our own: requests and responses are lines of JSON on its
 * stdin and stdout. What changes something is done in the order in which it was
 * asked, so requests need not wait for each other. An engine that hangs is ended:
 * no request waits for it.
 */
export class Engine {
	/** Whether it has ever answered. */
	heard = false;
	private readonly child: ChildProcess;
	private readonly pending = new Map<number, Pending>();
	private readonly exited: Promise<void>;
	private lastID = 0;
	private said = ""; // the end of stderr
	private gone: EngineError | undefined;
	private watch: NodeJS.Timeout | undefined;
	private silent = 0; // ticks since it was heard
	private pinged = false; // and has not answered

	constructor(
		private readonly command: string,
		cwd: string,
	) {
		this.child = spawn(command, ["rpc"], { cwd, stdio: ["pipe", "pipe", "pipe"] });
		this.exited = new Promise((resolve) => {
			this.child.once("error", (err: NodeJS.ErrnoException) => {
				const missing = err.code === "ENOENT" && existsSync(cwd);
				this.end(missing ? `${command}: not found: install snapctl, or set BOO_SNAPCTL to where it is` : `${command}: ${err.message}`);
				resolve();
			});
			this.child.once("close", (code, signal) => {
				this.end(`${command} rpc has ended (${signal ?? code}) ${this.said.trim()}`.trim());
				resolve();
			});
		});
		this.child.stdin?.on("error", () => {}); // "close" says it
		this.child.stderr?.on("data", (chunk) => {
			this.said = (this.said + chunk).slice(-2000);
		});
		const text = new StringDecoder("utf8");
		let parts: string[] = [];
		this.child.stdout?.on("data", (chunk: Buffer) => {
			this.silent = 0;
			this.heard = true;
			const lines = text.write(chunk).split("\n"); // and at nothing else that ends lines
			parts.push(lines[0]);
			for (const next of lines.slice(1)) {
				this.receive(parts.join(""));
				parts = [next];
			}
		});
		// Not by a promise: answers that are read at once with this one's are taken before it goes on.
		this.send("ping", {}, {
			resolve: (pong) => {
				if (pong?.protocol !== PROTOCOL) this.refuse(`${command} ${pong?.version} speaks protocol ${pong?.protocol}, and this extension ${PROTOCOL}: update the older one`);
			},
			reject: () => {}, // it is said elsewhere why it has ended
		});
	}

	/** Whether it can be asked no more. */
	get ended(): boolean {
		return this.gone !== undefined;
	}

	/** Whether it was ended since it hung. */
	get hung(): boolean {
		return this.gone?.code === HUNG;
	}

	/** Asks for one command; its data, or an EngineError. */
	request(type: string, params: object = {}): Promise<any> {
		return new Promise((resolve, reject) => this.send(type, params, { resolve, reject }));
	}

	private send(type: string, params: object, asked: Pending): void {
		if (this.gone) {
			asked.reject(this.gone);
			return;
		}
		const id = ++this.lastID;
		this.pending.set(id, asked);
		this.child.stdin?.write(`${JSON.stringify({ ...params, id, type })}\n`);
		if (!this.watch) {
			this.silent = 0;
			this.watch = setInterval(() => this.look(), TICK_MS);
			this.watch.unref();
		}
	}

	/** Looks whether it gives signs of life while it is asked. Ticks are counted, and not time: there are none while this process does not run either. */
	private look(): void {
		if (this.pending.size === 0) {
			clearInterval(this.watch);
			this.watch = undefined;
		} else if (++this.silent * TICK_MS > (this.heard ? SILENT_MS : STARTS_MS)) {
			this.refuse(`${this.command} rpc stopped answering, and was ended`, HUNG);
		} else if (!this.pinged) {
			this.pinged = true;
			const answered = () => {
				this.pinged = false;
			};
			this.send("ping", {}, { resolve: answered, reject: answered });
		}
	}

	/** Has it answer what it was asked, and end. */
	async close(): Promise<void> {
		await this.request("ping").catch(() => {}); // or it would be waited for, though it hangs
		this.child.stdin?.end();
		const timer = setTimeout(() => this.child.kill("SIGKILL"), 5000);
		await this.exited;
		clearTimeout(timer);
	}

	private receive(line: string): void {
		let r: Response | null = null;
		try {
			r = JSON.parse(line);
		} catch {
			// it is no JSON
		}
		if (typeof r !== "object" || r === null) {
			this.refuse(`it does not speak the protocol of snapctl: ${line.slice(0, 200)}`);
			return;
		}
		const p = r.type === "response" ? this.pending.get(r.id) : undefined;
		if (!p) return;
		this.pending.delete(r.id);
		if (r.success) p.resolve(r.data);
		else p.reject(new EngineError(r.error ?? "failed", r.code ?? "internal"));
	}

	/** Ends what cannot be spoken to. */
	private refuse(why: string, code?: string): void {
		this.end(why, code);
		this.child.kill("SIGKILL");
	}

	private end(why: string, code = "closed"): void {
		this.gone ??= new EngineError(why, code);
		for (const p of this.pending.values()) p.reject(this.gone);
		this.pending.clear();
	}
}
