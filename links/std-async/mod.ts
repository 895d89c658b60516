export * from "./deadline.ts";
export * from "./delay.ts";
export * from "./retry.ts";
