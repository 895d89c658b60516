/** What a mode hands to `main.ts`: something that runs until it is told to stop. */
export interface Running {
  /** Takes nothing new and waits for what runs, for at most so long; what is left then ends with an error. */
  drain(timeoutMs: number): Promise<void>;
  /** Ends everything that is left. */
  close(): Promise<void>;
}
