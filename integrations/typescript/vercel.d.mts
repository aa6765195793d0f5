import type { ToolSet } from 'ai';
import type { Tools } from './powerbox.mjs';
export declare function guardTools<T extends ToolSet>(tools: T, held: Tools, agent: string): T;
