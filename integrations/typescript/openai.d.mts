import type { Agent } from '@openai/agents';
import type { Tools } from './powerbox.mjs';
export declare function guardAgent<A extends Agent<any, any>>(agent: A, held: Tools): A;
