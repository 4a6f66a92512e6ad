// Compiles the precompiled header of pch.h.
