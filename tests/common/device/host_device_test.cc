#include "common/device/host_device.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "common/device/host_memory.h"
#include "tests/testing/status_matchers.h"

namespace tandem {
namespace {

using tandem::testing::IsOk;
using tandem::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(HostDevice, BlocksArePowersOfTwoAndAtMost512) {
  EXPECT_EQ(HostDevice::BlockBytesFor(1), 2 * kMiB);
  EXPECT_EQ(HostDevice::BlockBytesFor(1024 * kMiB), 2 * kMiB);
  EXPECT_EQ(HostDevice::BlockBytesFor(1024 * kMiB + 1), 4 * kMiB);
  EXPECT_EQ(HostDevice::BlockBytesFor(4096 * kMiB), 8 * kMiB);
}

TEST(HostDevice, APoolThatDoesNotFitIsRefusedWithTheMissingBytes) {
  EXPECT_THAT(HostDevice::Create(uint64_t{1} << 50),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("are missing")));
  EXPECT_THAT(HostDevice::Create(0), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("pool_bytes")));
}

TEST(HostDevice, BlocksAreSealedPrivateToTheUserAndAllocated) {
  ASSERT_OK_AND_ASSIGN(const auto device, HostDevice::Create(3 * kMiB));
  EXPECT_EQ(device->blocks(), 2U);
  ASSERT_OK_AND_ASSIGN(const UniqueFd fd, device->ShareBlock(1, BlockAccess::kReadWrite));
  struct stat info {};
  ASSERT_EQ(fstat(fd.get(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  EXPECT_EQ(info.st_size, static_cast<off_t>(2 * kMiB));
  EXPECT_EQ(info.st_blocks * 512, static_cast<off_t>(2 * kMiB));
  EXPECT_EQ(fcntl(fd.get(), F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  EXPECT_NE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(ftruncate(fd.get(), 1), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(HostDevice, AReadersDescriptorCanNotBeWritten) {
  ASSERT_OK_AND_ASSIGN(const auto device, HostDevice::Create(2 * kMiB));
  ASSERT_OK_AND_ASSIGN(const UniqueFd fd, device->ShareBlock(0, BlockAccess::kReadOnly));
  EXPECT_NE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(pwrite(fd.get(), "x", 1, 0), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(ftruncate(fd.get(), 0), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), MAP_FAILED);
  EXPECT_EQ(errno, EACCES);
  void* map = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  EXPECT_EQ(mprotect(map, 4096, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(errno, EACCES);
  munmap(map, 4096);
}

TEST(HostDevice, CopiesBetweenArenaAndHostMemoryAreExact) {
  ASSERT_OK_AND_ASSIGN(const auto device, HostDevice::Create(4 * kMiB));
  std::vector<std::byte> out(3 * kMiB), back(3 * kMiB);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i * 7 + i / 4096);
  ASSERT_THAT(device->CopyFromHost(kMiB - 100, out.size() - 200, out.data()), IsOk());
  ASSERT_THAT(device->CopyToHost(kMiB - 100, out.size() - 200, back.data()), IsOk());
  EXPECT_EQ(std::memcmp(out.data(), back.data(), out.size() - 200), 0);
}

TEST(ArenaMap, BlocksAppearAtTheirPlacesAndGoAgain) {
  ASSERT_OK_AND_ASSIGN(const auto device, HostDevice::Create(6 * kMiB));
  ASSERT_OK_AND_ASSIGN(ArenaMap map, ArenaMap::Reserve(device->block_bytes(), device->blocks()));
  ASSERT_OK_AND_ASSIGN(const UniqueFd fd, device->ShareBlock(2, BlockAccess::kReadWrite));
  ASSERT_THAT(map.Map(2, fd.get(), BlockAccess::kReadWrite), IsOk());
  EXPECT_TRUE(map.IsWritable(2));
  EXPECT_FALSE(map.IsMapped(0));
  map.data()[4 * kMiB + 5] = std::byte{42};
  std::byte seen{};
  ASSERT_THAT(device->CopyToHost(4 * kMiB + 5, 1, &seen), IsOk());
  EXPECT_EQ(seen, std::byte{42});
  ASSERT_THAT(map.Unmap(2), IsOk());
  EXPECT_FALSE(map.IsMapped(2));
}

TEST(HostDevice, TellsWhatAProcessMaps) {
  ASSERT_OK_AND_ASSIGN(const auto device, HostDevice::Create(6 * kMiB));
  // This process is the owner too, so all blocks are mapped writable here; a child inherits none of them.
  EXPECT_THAT(device->MappedBlocks(getpid(), {0, 2}, true),
              ::testing::AllOf(IsOk(), ::testing::Truly([](const auto& b) {
                                 return *b == std::vector<uint32_t>{0, 2};
                               })));
  const pid_t child = fork();
  if (child == 0) {
    while (true) pause();
  }
  const auto mapped = device->MappedBlocks(child, {0, 1, 2}, false);
  kill(child, SIGKILL);
  ASSERT_THAT(mapped, IsOk());
  EXPECT_THAT(*mapped, IsEmpty());
}

TEST(HostBuffer, IsTouchedInSteps) {
  ASSERT_OK_AND_ASSIGN(HostBuffer buffer, HostBuffer::Reserve(10000));
  EXPECT_TRUE(buffer.TouchNext(4096));
  EXPECT_TRUE(buffer.TouchNext(4096));
  EXPECT_FALSE(buffer.TouchNext(4096));
  ASSERT_OK_AND_ASSIGN(const uint64_t available, AvailableMemoryBytes());
  EXPECT_GT(available, kMiB);
}

}  // namespace
}  // namespace tandem
