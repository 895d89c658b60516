export * from "./decode.ts";
export * from "./encode.ts";
