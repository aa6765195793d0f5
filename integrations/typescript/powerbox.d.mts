export interface Pending { id: string; approvalUrl: string; expires: string; interval: number }
export interface Reason { code: string; message: string; operation?: string; argument?: string; constraint?: string }
export interface Decision {
  id?: string; text?: string; origin?: string; target?: string; missing?: string[];
  reasons?: Reason[]; skills?: string[]; retryable?: boolean; pending?: Pending;
}
export interface Refusal { error: string; message: string; missing: string[]; decision?: string; retryable: boolean; pending?: Pending }
export declare class Refused extends Error {
  readonly context: Decision;
  readonly code: string;
  readonly missing: string[];
  readonly decision: string | undefined;
  readonly pending: Pending | undefined;
}
export declare class Unavailable extends Refused {}
export declare function refusal(refused: Refused): Refusal;
export declare function refusalOf(error: unknown): Refusal;
export interface Attempt { origin: string; target: string; skill?: string; arguments?: object; requires?: string[]; purpose?: string }
export interface GateOptions {
  url: string; token: string;
  /** Milliseconds for one answer; 10,000 by default. */
  timeout?: number;
  /** Milliseconds that a call waits for a person; 0 refuses at once, with pending. */
  wait?: number;
  asked?: (pending: Pending) => void;
}
export declare class Gate {
  constructor(options: GateOptions);
  check(attempt: Attempt): Promise<Decision>;
  outcome(decision: Decision, failed?: boolean): Promise<void>;
}
export interface ToolsOptions {
  /** The agent at the gate whose skills the tools are. */
  target: string;
  /** Tools whose [target, skill] are others. */
  names?: Record<string, [target: string, skill: string]>;
  /** Names of the framework's agents at the gate, if they are others. */
  agents?: Record<string, string>;
  decided?: (tool: string, decision: Decision & { allowed: boolean }) => void;
}
export declare class Tools {
  constructor(gate: Gate, options: ToolsOptions);
  run<T>(origin: string, tool: string, input: unknown, execute: () => T | PromiseLike<T>): Promise<T>;
  ask(origin: string, tool: string, input: unknown): Promise<Decision>;
  handOver(origin: string, to: string): Promise<Decision>;
  tell(decision: Decision, failed?: boolean): Promise<void>;
}
